#include "nsa/kernels/rotate.h"

#include <stdexcept>
#include <string>

#include "nsa/kernels/common/kernels.h"

namespace nsa::kernels {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument("nsa kernels: rotate: " + what);
}

bool is_aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

RotateParams params_of(const Rotation& r, void* rows) {
  if (r.d_k < 8 || r.d_k % 8 != 0) refuse("d_k " + std::to_string(r.d_k) + ": a multiple of 8");
  if (r.sequence % 8 != 0 || r.position % 8 != 0) refuse("strides: multiples of 8");
  if (!is_aligned(rows) || !is_aligned(r.cosines) || !is_aligned(r.sines)) {
    refuse("memory is not aligned to 16 bytes");
  }
  if (r.groups < 1 || r.heads < 1 || r.key_heads < 0) refuse("heads");
  if (r.batch * r.length * (r.groups + r.key_heads) * (r.d_k / 8) >= std::int64_t{1} << 31) {
    refuse("more than 2^31 pieces of 16 bytes");
  }
  RotateParams p;
  p.rows = static_cast<char*>(rows);
  p.sequence = 2 * r.sequence;
  p.position = 2 * r.position;
  p.tokens = r.batch * r.length;
  p.length = static_cast<int>(r.length);
  p.groups = r.groups;
  p.heads = r.heads;
  p.key_heads = r.key_heads;
  p.chunks = r.d_k / 8;
  p.cosines = r.cosines;
  p.sines = r.sines;
  return p;
}

}  // namespace

void rotate(const Rotation& rotation, void* rows, void* means, Stream stream) {
  RotateParams p = params_of(rotation, rows);
  if (!is_aligned(means)) refuse("means are not aligned to 16 bytes");
  p.means = static_cast<char*>(means);
  find_element_kernels(rotation.element)->rotate(p, stream);
}

void rotate_backward(const Rotation& rotation, void* d_rows, const void* d_means, Stream stream) {
  RotateParams p = params_of(rotation, d_rows);
  if (!is_aligned(d_means)) refuse("gradients of means are not aligned to 16 bytes");
  p.d_means = static_cast<const char*>(d_means);
  p.backward = true;
  find_element_kernels(rotation.element)->rotate(p, stream);
}

}  // namespace nsa::kernels
