// Row-major arrays that own their memory, with their shape: what goes into the oracle and out.
// A plain value; shape and data are consistent wherever the oracle made the array, and are checked
// (require_shape) where it was given one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#ifdef __FAST_MATH__
#error "The oracle needs IEEE arithmetic: NaN, infinities and the order of sums."
#endif

namespace oracles {

using Shape = std::vector<std::int64_t>;

template <typename T>
struct Array {
  Shape shape;
  std::vector<T> data;
};
using Tensor = Array<double>;
using IntTensor = Array<std::int64_t>;

// Elements of a shape. Throws std::invalid_argument where a dimension is negative or the product
// does not fit 63 bits.
std::int64_t element_count(const Shape& shape);

// "[2,3]"
std::string shape_text(const Shape& shape);

template <typename T>
Array<T> filled(const Shape& shape, T value) {
  return {shape, std::vector<T>(static_cast<std::size_t>(element_count(shape)), value)};
}
inline Tensor zeros(const Shape& shape) {
  return filled(shape, 0.0);
}

// Throws std::invalid_argument that names the tensor, the shape found and the one wanted, or says
// that shape and data disagree.
void require_shape(const Shape& found, std::size_t elements, const Shape& wanted, const char* name);
template <typename T>
void require_shape(const Array<T>& array, const Shape& wanted, const std::string& name) {
  require_shape(array.shape, array.data.size(), wanted, name.c_str());
}

// Throws std::invalid_argument that names the first element that is NaN or infinite.
void require_finite(const Tensor& tensor, const std::string& name);

// Same elements under another shape.
Tensor reshaped(Tensor tensor, const Shape& shape);

// [B,S,H*D] -> [B,H,S,D], and back. `heads` = H divides the last dimension.
Tensor split_heads(const Tensor& tokens, std::int64_t heads);
Tensor merge_heads(const Tensor& heads);

// Rows of [B,S,E] at the positions given: [B,R,E].
Tensor gather_rows(const Tensor& tokens, const std::vector<std::int64_t>& rows);

}  // namespace oracles
