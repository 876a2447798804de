// Elements of a tensor: their types, and their values whatever the type.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "nsa/base/error.h"
#include "nsa/base/safetensors.h"

namespace nsa {
namespace {

// The format fixes little-endian; elements are copied as they lie.
static_assert(std::endian::native == std::endian::little);
static_assert(std::numeric_limits<double>::is_iec559 && std::numeric_limits<float>::is_iec559);

struct DTypeRow {
  DType dtype;
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array<DTypeRow, 8> kDTypes{{{DType::f64, "F64", 8},
                                           {DType::f32, "F32", 4},
                                           {DType::f16, "F16", 2},
                                           {DType::bf16, "BF16", 2},
                                           {DType::i64, "I64", 8},
                                           {DType::i32, "I32", 4},
                                           {DType::u8, "U8", 1},
                                           {DType::boolean, "BOOL", 1}}};

const DTypeRow& row_of(DType dtype) {
  return *std::find_if(
      kDTypes.begin(), kDTypes.end(), [&](const DTypeRow& row) { return row.dtype == dtype; });
}

template <typename T>
T element(const TensorView& view, std::size_t i) {
  T value{};
  std::memcpy(&value, view.bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

double bf16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16u);
}

double f16_value(std::uint16_t bits) {
  constexpr int kMantissaBits = 10;
  constexpr int kBias = 15;
  const int exponent = (bits >> 10u) & 31;
  const int mantissa = bits & 1023;
  double value = 0;
  if (exponent == 31) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - kBias - kMantissaBits);
  } else {
    value = std::ldexp(mantissa + 1024, exponent - kBias - kMantissaBits);
  }
  return (bits >> 15u) != 0 ? -value : value;
}

// Views made by hand need not be consistent.
std::size_t element_count(const TensorView& view) {
  const std::optional<std::int64_t> wanted = tensor_bytes(view.dtype, view.shape);
  if (!wanted || static_cast<std::uint64_t>(*wanted) != view.bytes.size()) {
    throw Error(Location{view.where},
                "found " + std::to_string(view.bytes.size()) + " bytes for shape " +
                    shape_text(view.shape));
  }
  return view.bytes.size() / static_cast<std::size_t>(dtype_bytes(view.dtype));
}

template <typename Result, typename Convert>
std::vector<Result> converted(const TensorView& view, Convert convert) {
  std::vector<Result> values(element_count(view));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = convert(i);
  }
  return values;
}

}  // namespace

std::string_view dtype_name(DType dtype) {
  return row_of(dtype).name;
}
std::int64_t dtype_bytes(DType dtype) {
  return row_of(dtype).bytes;
}

std::optional<DType> dtype_named(std::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == name) {
      return row.dtype;
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> tensor_bytes(DType dtype, const std::vector<std::int64_t>& shape) {
  std::int64_t count = dtype_bytes(dtype);
  for (const std::int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) {
      return std::nullopt;
    }
  }
  return count;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t dim : shape) {
    text += (text.size() > 1 ? "," : "") + std::to_string(dim);
  }
  return text + "]";
}

std::vector<double> to_doubles(const TensorView& view) {
  const auto values = [&](auto convert) { return converted<double>(view, convert); };
  switch (view.dtype) {
    case DType::f64: return values([&](std::size_t i) { return element<double>(view, i); });
    case DType::f32:
      return values([&](std::size_t i) { return static_cast<double>(element<float>(view, i)); });
    case DType::f16:
      return values([&](std::size_t i) { return f16_value(element<std::uint16_t>(view, i)); });
    case DType::bf16:
      return values([&](std::size_t i) { return bf16_value(element<std::uint16_t>(view, i)); });
    case DType::i32:
    case DType::u8:
    case DType::boolean: {
      const std::vector<std::int64_t> whole = to_int64s(view);
      return {whole.begin(), whole.end()};
    }
    case DType::i64: break;
  }
  throw Error(Location{view.where}, "found I64, wanted a dtype whose values all fit a double");
}

std::vector<std::int64_t> to_int64s(const TensorView& view) {
  const auto values = [&](auto convert) { return converted<std::int64_t>(view, convert); };
  switch (view.dtype) {
    case DType::i64: return values([&](std::size_t i) { return element<std::int64_t>(view, i); });
    case DType::i32: return values([&](std::size_t i) { return element<std::int32_t>(view, i); });
    case DType::u8: return values([&](std::size_t i) { return element<std::uint8_t>(view, i); });
    case DType::boolean:
      return values([&](std::size_t i) {
        const auto value = element<std::uint8_t>(view, i);
        if (value > 1) {
          throw Error(Location{view.where},
                      "element " + std::to_string(i) + ": found " + std::to_string(value) +
                          ", wanted BOOL 0 or 1");
        }
        return std::int64_t{value};
      });
    default: break;
  }
  throw Error(Location{view.where},
              "found " + std::string(dtype_name(view.dtype)) + ", wanted an integer dtype");
}

}  // namespace nsa
