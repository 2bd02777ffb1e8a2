/* What the pool's files share: the cgroup reader, apart so that specs can give it made-up folders.
 */
#ifndef FA4_POOL_INTERNAL_H
#define FA4_POOL_INTERNAL_H

#include <stdint.h>

/* CPUs that the cgroups named in cgroup_file allow, their files under mount; INT32_MAX without a
 * limit. */
int32_t pool_cgroup_cpus(const char *cgroup_file, const char *mount);

#endif
