#include "harness/evidence/torch_types.h"

#include <map>

namespace harness {

std::int64_t torch_type_bytes(const std::string& name) {
  static const std::map<std::string, std::int64_t> kBytes = {{"Byte", 1},
                                                             {"Char", 1},
                                                             {"Bool", 1},
                                                             {"Short", 2},
                                                             {"Half", 2},
                                                             {"BFloat16", 2},
                                                             {"Int", 4},
                                                             {"Float", 4},
                                                             {"Long", 8},
                                                             {"Double", 8}};
  const auto at = kBytes.find(name);
  return at == kBytes.end() ? 0 : at->second;
}

}  // namespace harness
