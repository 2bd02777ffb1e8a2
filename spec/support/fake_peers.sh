#!/bin/sh
# Stands in for `python3 scripts/peers_h200.py` on a machine without a GPU: lines of its form, made up.
cat <<'LINES'
note FA4 is missing: flash_attn.cute: No module named 'flash_attn'
row kind=gqa who=maxfree dtype=bf16 dim=128 length=16384 length_q=16384 batch=1 heads_q=64 heads_kv=8 mask=causal us=1000 tflops=690 same=1
row kind=gqa who=cudnn dtype=bf16 dim=128 length=16384 length_q=16384 batch=1 heads_q=64 heads_kv=8 mask=causal us=1200 tflops=575
row kind=gqa who=each dtype=bf16 dim=128 length=16384 length_q=16384 batch=1 heads_q=64 heads_kv=8 mask=causal us=1061 tflops=650 same=1
row kind=gqa who=fa3 dtype=bf16 dim=128 length=16384 length_q=16384 batch=1 heads_q=64 heads_kv=8 mask=causal us=1150 tflops=600
row kind=rising who=maxfree dtype=bf16 dim=128 length=4096 length_q=4096 batch=4 heads_q=16 heads_kv=16 mask=full us=500 tflops=660 same=1
row kind=rising who=each dtype=bf16 dim=128 length=4096 length_q=4096 batch=4 heads_q=16 heads_kv=16 mask=full us=550 tflops=600 same=0
row kind=rising who=cudnn dtype=bf16 dim=128 length=4096 length_q=4096 batch=4 heads_q=16 heads_kv=16 mask=full us=600 tflops=550
row kind=decode who=maxfree dtype=bf16 dim=128 length=131072 length_q=1 batch=32 heads_q=64 heads_kv=8 mask=full us=4772 tflops=28 same=1 gbs=3600 copy_gbs=4000
row kind=decode who=each dtype=bf16 dim=128 length=131072 length_q=1 batch=32 heads_q=64 heads_kv=8 mask=full us=5053 tflops=27 same=1 gbs=3400 copy_gbs=4000
row kind=decode who=fa3 dtype=bf16 dim=128 length=131072 length_q=1 batch=32 heads_q=64 heads_kv=8 mask=full us=5726 tflops=24 gbs=3000 copy_gbs=4000
clock mhz=1560 watts=701
LINES
