#include "oracles/tensor.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace oracles {

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (const std::int64_t dim : shape) {
    text += (text.size() > 1 ? "," : "") + std::to_string(dim);
  }
  return text + "]";
}

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) {
      throw std::invalid_argument("impossible shape " + shape_text(shape));
    }
  }
  return count;
}

void require_shape(const Shape& found,
                   std::size_t elements,
                   const Shape& wanted,
                   const char* name) {
  if (found != wanted) {
    throw std::invalid_argument(std::string(name) + ": found shape " + shape_text(found) +
                                ", wanted " + shape_text(wanted));
  }
  if (static_cast<std::uint64_t>(element_count(wanted)) != elements) {
    throw std::invalid_argument(std::string(name) + ": found " + std::to_string(elements) +
                                " elements for shape " + shape_text(found));
  }
}

void require_finite(const Tensor& tensor, const std::string& name) {
  const auto bad = std::find_if(
      tensor.data.begin(), tensor.data.end(), [](double value) { return !std::isfinite(value); });
  if (bad != tensor.data.end()) {
    throw std::invalid_argument(name + ": element " + std::to_string(bad - tensor.data.begin()) +
                                " is " + std::to_string(*bad) + ", wanted a finite number");
  }
}

Tensor reshaped(Tensor tensor, const Shape& shape) {
  require_shape(shape, tensor.data.size(), shape, "reshaped");
  tensor.shape = shape;
  return tensor;
}

Tensor split_heads(const Tensor& tokens, std::int64_t heads) {
  const std::int64_t batch = tokens.shape.at(0);
  const std::int64_t length = tokens.shape.at(1);
  const std::int64_t width = tokens.shape.at(2) / heads;
  Tensor result = zeros({batch, heads, length, width});
  const double* from = tokens.data.data();
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t s = 0; s < length; ++s) {
      for (std::int64_t head = 0; head < heads; ++head, from += width) {
        const std::int64_t row = (b * heads + head) * length + s;
        std::copy_n(from, width, result.data.begin() + row * width);
      }
    }
  }
  return result;
}

Tensor merge_heads(const Tensor& heads) {
  const std::int64_t batch = heads.shape.at(0);
  const std::int64_t count = heads.shape.at(1);
  const std::int64_t length = heads.shape.at(2);
  const std::int64_t width = heads.shape.at(3);
  Tensor result = zeros({batch, length, count * width});
  double* to = result.data.data();
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t s = 0; s < length; ++s) {
      for (std::int64_t head = 0; head < count; ++head, to += width) {
        const std::int64_t row = (b * count + head) * length + s;
        std::copy_n(heads.data.begin() + row * width, width, to);
      }
    }
  }
  return result;
}

Tensor gather_rows(const Tensor& tokens, const std::vector<std::int64_t>& rows) {
  const std::int64_t batch = tokens.shape.at(0);
  const std::int64_t length = tokens.shape.at(1);
  const std::int64_t width = tokens.shape.at(2);
  Tensor result = zeros({batch, static_cast<std::int64_t>(rows.size()), width});
  auto to = result.data.begin();
  for (std::int64_t b = 0; b < batch; ++b) {
    for (const std::int64_t row : rows) {
      to = std::copy_n(tokens.data.begin() + (b * length + row) * width, width, to);
    }
  }
  return result;
}

}  // namespace oracles
