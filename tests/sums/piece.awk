# Of x86 assembly: the straight piece of code (between labels and jumps) that reads most whole
# vectors from memory other than the stack, the inner loop of a kernel: what it reads, adds,
# multiplies and stores, in how many accumulators it adds, and how much else it does. width is the
# name of a whole vector's register: %ymm or %zmm.
function finish() {
  if (reads > best) {
    best = reads
    line = sprintf("reads=%d adds=%d products=%d accumulators=%d stores=%d other=%d", reads, adds, products, accumulators, stores, other)
  }
  reads = adds = products = accumulators = stores = other = 0
  split("", seen)
}
/^[.A-Za-z_0-9]+:/ { finish(); next }
/^\t\./ { next }
{
  operation = $1
  operands = $0
  sub(/^\t[a-z0-9]+[ \t]*/, "", operands)
  last = operands
  sub(/.*, */, "", last)
  whole = index(operands, width)
  if (operation ~ /^v?mov/ && operands ~ /\)$/)
    stores++
  else if (whole && operands ~ /\(/ && operands !~ /\(%r[sb]p/)
    reads++
  if (whole && operation ~ /^(vaddps|vfmadd[0-9]+ps)$/) {
    adds++
    if (!(last in seen)) {
      seen[last] = 1
      accumulators++
    }
  }
  if (whole && operation ~ /^(vmulps|vfmadd[0-9]+ps)$/)
    products++
  if (operation !~ /^v/)
    other++
  if (operation ~ /^j/)
    finish()
}
END { finish(); print line }
