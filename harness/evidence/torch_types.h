// Element types by LibTorch's names, as rows have them: "Float", "BFloat16".
#pragma once

#include <cstdint>
#include <string>

namespace harness {

// Bytes of one element; 0 if the name is not known.
[[nodiscard]] std::int64_t torch_type_bytes(const std::string& name);

}  // namespace harness
