"""Forward attention on one GPU: this library beside FlashAttention-3, FlashAttention-4 (CuTe DSL) and cuDNN, in one process.

  python3 scripts/peers_h200.py [--library build/libfa4.so] [--header engine/fa4.h] [--rows main,gqa,sharp,decode] [--rounds N]
                                [--warm MS] [--window MS] [--seconds S] [--seed N] [--smoke]

Run by `fa4 scripts/bench.lua --device cuda --peers`, which reads its lines: `row key=value ...` for each case and contestant, `clock ...` for
each row at the end, `note ...`.
Needs Python with torch (cuDNN comes with it); FA3 is `flash_attn_interface`, FA4 is `flash_attn.cute`: what is missing is named and left out.

All read the same (batch, position, head, dim) tensors (cuDNN: heads first, its best layout) and run on one stream. In each round the
contestants come in a new random order; each runs WARM ms of itself, then a window of WINDOW ms. Before every call 256 MB are written (the
L2 is flushed); one event pair a call; a device-side sleep lets the host run ahead. A window is the median of its calls, a case the median of
its windows. Every contestant's first and last head are held to float32 before it is timed, ours again after, bit for bit. Clock and power
come from nvidia-smi, matched to windows by time. FLOPs: 4 B Hq Sq Skv D, half of it when causal. Decode: bytes of Q, K, V, O over time, against a
copy of 4 GB (bytes read plus written) in the same run.
"""
import argparse, ctypes, datetime, math, os, random, re, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--library", default=os.path.join(HERE, "../build/libfa4.so"))
parser.add_argument("--header", default=os.path.join(HERE, "../engine/fa4.h"))
parser.add_argument("--rows", default="main,gqa,sharp,decode")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--warm", type=float, default=30)
parser.add_argument("--window", type=float, default=60)
parser.add_argument("--seconds", type=float, default=400, help="start no further case after this time")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--smoke", action="store_true", help="one small case, to see that everything is there")
OPTIONS = parser.parse_args()


def note(text):
    print("note", " ".join(str(text).split()), flush=True)


try:
    import torch
except ImportError as error:
    note(f"torch is missing ({error}): no peer can be called and no tensor made")
    sys.exit(3)
if not torch.cuda.is_available():
    note("torch sees no GPU")
    sys.exit(3)

# ---- the library, its structs read from the header ------------------------------------------------------------------------------------

SCALARS = {"int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "uint32_t": ctypes.c_uint32, "double": ctypes.c_double,
           "float": ctypes.c_float, "char": ctypes.c_char, "int": ctypes.c_int}


def read_header(path):
    """Struct classes and enum values of fa4.h, which is written so that a few lines can read it."""
    text = re.sub(r"/\*.*?\*/", "", open(path).read(), flags=re.S)
    values, structs = {}, {}
    for body in re.findall(r"enum\s*\w*\s*\{([^}]*)\}", text):
        at = -1
        for item in filter(None, (x.strip() for x in body.split(","))):
            name, _, value = (x.strip() for x in item.partition("="))
            at = int(value, 0) if value else at + 1
            values[name] = at
    for name, body in re.findall(r"typedef struct (\w+) \{([^}]*)\}", text):
        fields = []
        for line in filter(None, (x.strip() for x in body.split(";"))):
            kind, rest = re.match(r"(?:const\s+)?(\w+)\s*(.*)", line, re.S).groups()
            for item in rest.split(","):
                stars, field, size = re.match(r"\s*(\**)\s*(\w+)\s*((?:\[\w+\])*)", item).groups()
                kind_of = ctypes.c_void_p if stars else SCALARS.get(kind) or structs[kind]
                for length in reversed(re.findall(r"\[(\w+)\]", size)):
                    kind_of = kind_of * (values[length] if length in values else int(length))
                fields.append((field, kind_of))
        structs[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
    return structs, values


STRUCTS, VALUES = read_header(OPTIONS.header)
LIBRARY = ctypes.CDLL(OPTIONS.library)
ERROR = STRUCTS["fa4_error"]()


def checked(status, what):
    if status:
        raise RuntimeError(f"{what}: {ERROR.text.decode()}")


CONTEXT = ctypes.c_void_p()
checked(LIBRARY.fa4_context_open(None, ctypes.byref(CONTEXT), ctypes.byref(ERROR)), "context")
DTYPES = {torch.float16: "FA4_F16", torch.bfloat16: "FA4_BF16", torch.float32: "FA4_F32"}


def view(tensor):
    v = STRUCTS["fa4_tensor"](data=tensor.data_ptr(), dtype=VALUES[DTYPES[tensor.dtype]], rank=tensor.dim(), device=1)
    for axis in range(tensor.dim()):
        v.shape[axis], v.strides[axis] = tensor.shape[axis], tensor.stride(axis)
    return v


class Ours:
    """One plan on one set of tensors; a call queues it on torch's stream."""

    def __init__(self, q, k, v, causal, row_max):
        batch, length, heads, dim = q.shape
        self.o = torch.full_like(q, math.nan)
        self.lse = torch.full((batch, heads, length), math.nan, device=q.device)
        request = STRUCTS["fa4_request"](device=ctypes.cast(ctypes.c_char_p(b"cuda"), ctypes.c_void_p))
        p = request.problem
        p.batch, p.seqlen_q, p.seqlen_kv, p.heads_q, p.heads_kv, p.dim, p.dim_v = batch, length, k.shape[1], heads, k.shape[2], dim, dim
        p.dtype, p.lse, p.scale, p.mask_nodes = VALUES[DTYPES[q.dtype]], 1, dim ** -0.5, int(causal)
        p.mask[0].kind = VALUES["FA4_MASK_CAUSAL"]
        LIBRARY.fa4_schedule_default(ctypes.byref(request.schedule))
        request.schedule.row_max = VALUES[row_max]
        self.plan = ctypes.c_void_p()
        checked(LIBRARY.fa4_plan_create(CONTEXT, ctypes.byref(request), ctypes.byref(self.plan), ctypes.byref(ERROR)), "plan")
        self.kept = (q, k, v)
        self.tensors = STRUCTS["fa4_tensors"](q=view(q), k=view(k), v=view(v), o=view(self.o), lse=view(self.lse))
        self.arguments = (CONTEXT, self.plan, ctypes.byref(self.tensors), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), ctypes.byref(ERROR))
        self.launch = LIBRARY.fa4_launch

    def __call__(self):
        status = self.launch(*self.arguments)
        if status:
            checked(status, "launch")
        return self.o

    def close(self):
        LIBRARY.fa4_plan_destroy(self.plan)


# ---- peers ------------------------------------------------------------------------------------------------------------------------------

for name, on in (("flash", False), ("mem_efficient", False), ("math", False), ("cudnn", True)):
    getattr(torch.backends.cuda, f"enable_{name}_sdp")(on)
fa3 = fa4 = None
try:
    from flash_attn_interface import flash_attn_func as fa3
except Exception as error:
    note(f"FA3 is missing: flash_attn_interface: {error}")
try:
    from flash_attn.cute import flash_attn_func as fa4
except Exception as error:
    note(f"FA4 is missing: flash_attn.cute: {error}")


def first(x):
    return x[0] if isinstance(x, (tuple, list)) else x


def make_contestants(q, k, v, causal, decode):
    """Name -> a call that gives O as (batch, position, head, dim). All but cuDNN write the log-sum-exp."""
    calls = {}

    def add(name, make):
        try:
            calls[name] = make()
        except Exception as error:
            note(f"{name} is left out: {error}")

    add("maxfree", lambda: Ours(q, k, v, causal, "FA4_ROW_MAX_FIRST_BLOCK"))
    add("each", lambda: Ours(q, k, v, causal, "FA4_ROW_MAX_EACH_BLOCK"))
    splits = 0 if decode else 1
    if fa3:
        add("fa3", lambda: lambda: first(fa3(q, k, v, causal=causal, num_splits=splits, return_attn_probs=True)))
    if fa4:
        add("fa4", lambda: lambda: first(fa4(q, k, v, causal=causal, num_splits=splits, return_lse=True)))
    heads_first = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
    attention = torch.nn.functional.scaled_dot_product_attention
    add("cudnn", lambda: lambda: attention(*heads_first, is_causal=causal, enable_gqa=q.shape[2] != k.shape[2]).transpose(1, 2))
    return calls


def relative_error(o, q, k, v, causal):
    """Of the first and the last head, against float32."""
    worst = 0.0
    for b, h in ((0, 0), (q.shape[0] - 1, q.shape[2] - 1)):
        hk = h // (q.shape[2] // k.shape[2])
        scores = q[b, :, h].float() @ k[b, :, hk].float().T * q.shape[3] ** -0.5
        if causal:
            scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu_(1 + scores.shape[1] - scores.shape[0]), -math.inf)
        want = torch.softmax(scores, -1) @ v[b, :, hk].float()
        worst = max(worst, ((o[b, :, h].float() - want).norm() / want.norm()).item())
    return worst


def keep_right(calls, q, k, v, causal, tolerance):
    """Drops who fails or is wrong; ours leave their output to be compared with after the timing."""
    for name in list(calls):
        try:
            error = relative_error(calls[name](), q, k, v, causal)
            torch.cuda.synchronize()
            if isinstance(calls[name], Ours):
                calls[name].before = calls[name].o.clone()
            if not error <= tolerance:
                raise RuntimeError(f"wrong: relative error {error:.2g}")
        except Exception as error:
            note(f"{name} is left out of {tuple(q.shape)} {q.dtype} {'causal' if causal else 'full'}: {error}")
            del calls[name]


# ---- timing -----------------------------------------------------------------------------------------------------------------------------

torch.manual_seed(OPTIONS.seed)
random.seed(OPTIONS.seed)
torch.backends.cuda.matmul.allow_tf32 = False
DEVICE = torch.device("cuda")
FLUSH = torch.empty(256 << 20, dtype=torch.uint8, device=DEVICE)
EVENTS = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(1500)]
START = time.time()


def window(call, each_ms, warm_ms, window_ms):
    """(median ms, begin, end) of a window; begin and end are wall times."""
    count = min(len(EVENTS), max(5, int(window_ms / each_ms)))
    torch.cuda._sleep(6_000_000)
    for _ in range(int(warm_ms / each_ms)):
        FLUSH.zero_()
        call()
    for begin, end in EVENTS[:count]:
        FLUSH.zero_()
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    now = time.time()
    return statistics.median(a.elapsed_time(b) for a, b in EVENTS[:count]), now - EVENTS[0][0].elapsed_time(EVENTS[count - 1][1]) / 1e3, now


def measure(calls):
    """Name -> (ms, [(begin, end)])."""
    each = {name: window(call, 1e9, 0, 0)[0] + 0.07 for name, call in calls.items()}
    times, windows, order = {name: [] for name in calls}, {name: [] for name in calls}, list(calls)
    for _ in range(OPTIONS.rounds):
        random.shuffle(order)
        for name in order:
            ms, begin, end = window(calls[name], each[name], OPTIONS.warm, OPTIONS.window)
            times[name].append(ms)
            windows[name].append((begin, end))
    return {name: (statistics.median(times[name]), windows[name]) for name in calls}


class Card:
    """Clocks and power while we run."""

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile("w+", suffix=".csv")
        fields = "timestamp,clocks.sm,power.draw.instant"
        self.process = subprocess.Popen(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", "-lms", "20"], stdout=self.file,
                                        stderr=subprocess.DEVNULL)

    def close(self):
        time.sleep(0.1)
        self.process.terminate()
        self.process.wait()

    def during(self, windows):
        """Median clock and power; to be asked once the file is whole."""
        samples = []
        for line in open(self.file.name):
            try:
                stamp, mhz, watts = (x.strip() for x in line.split(","))
                at = datetime.datetime.strptime(stamp, "%Y/%m/%d %H:%M:%S.%f").timestamp()
                if any(begin + 0.02 <= at <= end for begin, end in windows):
                    samples.append((float(mhz), float(watts)))
            except ValueError:
                pass
        if not samples:
            return 0, 0
        return statistics.median(s[0] for s in samples), statistics.median(s[1] for s in samples)


CARD = Card()
WINDOWS = []  # of each row
COPY = 0.0  # GB/s


def measure_copy():
    source = torch.empty(2 << 30, dtype=torch.uint8, device=DEVICE).fill_(3)
    target = torch.empty_like(source)
    target.copy_(source)
    torch.cuda.synchronize()
    times = []
    for begin, end in EVENTS[:20]:
        begin.record()
        target.copy_(source)
        end.record()
    torch.cuda.synchronize()
    times = [a.elapsed_time(b) for a, b in EVENTS[:20]]
    return 2 * source.numel() / statistics.median(times) / 1e6


def run_case(kind, q, k, v, causal, tolerance=2e-2):
    if time.time() - START > OPTIONS.seconds:
        return note(f"no time left for {kind} {tuple(q.shape)} {q.dtype}")
    decode = kind == "decode"
    calls = make_contestants(q, k, v, causal, decode)
    keep_right(calls, q, k, v, causal, tolerance)
    results = measure(calls)
    batch, length, heads, dim = q.shape
    flops = 4 * batch * heads * length * k.shape[1] * dim * (0.5 if causal else 1)
    bytes_moved = sum(x.numel() * x.element_size() for x in (q, k, v, q))
    for name, (ms, windows) in results.items():
        call, extra = calls[name], ""
        if isinstance(call, Ours):
            extra = f" same={int(torch.equal(call.o.view(torch.int16), call.before.view(torch.int16)))}"
        if decode:
            extra += f" gbs={bytes_moved / ms / 1e6:.1f} copy_gbs={COPY:.1f}"
        WINDOWS.append(windows)
        print(f"row kind={kind} who={name} dtype={'f16' if q.dtype is torch.float16 else 'bf16'} dim={dim} length={k.shape[1]} length_q={length} batch={batch} "
              f"heads_q={heads} heads_kv={k.shape[2]} mask={'causal' if causal else 'full'} us={ms * 1e3:.2f} tflops={flops / ms / 1e9:.2f}{extra}",
              flush=True)
    for call in calls.values():
        if isinstance(call, Ours):
            call.close()


def normal(batch, length, heads, dim, dtype):
    return torch.randn(batch, length, heads, dim, device=DEVICE, dtype=dtype)


def inputs(batch, length, heads_q, heads_kv, dim, dtype):
    return normal(batch, length, heads_q, dim, dtype), normal(batch, length, heads_kv, dim, dtype), normal(batch, length, heads_kv, dim, dtype)


# ---- cases ------------------------------------------------------------------------------------------------------------------------------

def run_main():
    for dtype in (torch.float16, torch.bfloat16):
        for dim in (128, 64):
            for causal in (False, True):
                for length in (1024, 2048, 4096, 8192, 16384):
                    run_case("main", *inputs(16384 // length, length, 16, 16, dim, dtype), causal)


def run_gqa():
    for causal in (False, True):
        run_case("gqa", *inputs(1, 16384, 64, 8, 128, torch.bfloat16), causal)


def sharp_inputs(kind, length):
    """Scores that make a reference move: of a given deviation, one key far above the others, or rising (falling) by 20 log2 units a block."""
    q, k, v = inputs(16384 // length, length, 16, 16, 128, torch.bfloat16)
    if kind.startswith("deviation"):
        q *= float(kind[len("deviation"):])
    elif kind == "onehot":
        order = torch.randperm(length, device=DEVICE)
        q = k[:, order].contiguous() * 8
    else:
        ramp = torch.arange(length, device=DEVICE, dtype=torch.float32) / 128 * 20 * math.log(2)
        ramp = ramp if kind == "rising" else ramp.flip(0)
        q[..., 0] = 8
        k[..., 0] = (ramp * 128 ** 0.5 / 8).to(k.dtype)[None, :, None]
    return q, k, v


def run_sharp():
    for causal in (False, True):
        for kind in ("deviation16", "deviation32", "deviation64", "onehot", "rising", "falling"):
            run_case(kind, *sharp_inputs(kind, 4096), causal, 0.05)


def run_decode():
    global COPY
    COPY = measure_copy()
    note(f"a copy of 2 GiB moves {COPY:.0f} GB/s, read plus written")
    for length in (8192, 32768, 131072):
        for batch in (1, 4, 32):
            q = normal(batch, 1, 64, 128, torch.bfloat16)
            run_case("decode", q, normal(batch, length, 8, 128, torch.bfloat16), normal(batch, length, 8, 128, torch.bfloat16), False)
            torch.cuda.empty_cache()


def main():
    properties = torch.cuda.get_device_properties(0)
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version,power.limit,clocks.max.sm", "--format=csv,noheader"], capture_output=True, text=True)
    note(f"{properties.name}, {properties.multi_processor_count} SMs; driver, power limit, top clock: {driver.stdout.strip()}")
    note(f"torch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}; "
         f"{OPTIONS.rounds} rounds of {OPTIONS.warm:g} ms to warm and {OPTIONS.window:g} ms; {datetime.datetime.now():%Y-%m-%d %H:%M}")
    for package in ("tokenspeed-fa3", "flash-attn-3", "flash-attn-4", "nvidia-cutlass-dsl"):
        try:
            from importlib.metadata import version
            note(f"{package} {version(package)}")
        except Exception:
            pass
    cases = {"main": run_main, "gqa": run_gqa, "sharp": run_sharp, "decode": run_decode}
    with torch.no_grad():
        if OPTIONS.smoke:
            run_case("main", *inputs(2, 1024, 16, 16, 128, torch.bfloat16), True)
        else:
            for name in OPTIONS.rows.split(","):
                cases[name]()


try:
    main()
finally:
    CARD.close()
    for windows in WINDOWS:
        print("clock mhz=%.0f watts=%.0f" % CARD.during(windows), flush=True)
