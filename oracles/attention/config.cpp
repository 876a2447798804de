#include "oracles/attention/config.h"

#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

namespace oracles {
namespace {

// Products of three sizes, doubled, still fit 63 bits.
constexpr std::int64_t kMaxSize = std::int64_t{1} << 20;

void require(bool holds, const std::string& message) {
  if (!holds) {
    throw std::invalid_argument("AttentionConfig: " + message);
  }
}

void require_divides(const char* divisor, std::int64_t a, const char* multiple, std::int64_t b) {
  require(b % a == 0,
          std::string(divisor) + " = " + std::to_string(a) + " must divide " + multiple + " = " +
              std::to_string(b));
}

}  // namespace

void validate(const AttentionConfig& c) {
  for (const auto& [name, value] : {std::pair("dim", c.dim),
                                    std::pair("n_heads", c.n_heads),
                                    std::pair("n_kv_groups", c.n_kv_groups),
                                    std::pair("d_k", c.d_k),
                                    std::pair("d_v", c.d_v),
                                    std::pair("l", c.l),
                                    std::pair("d", c.d),
                                    std::pair("l_sel", c.l_sel),
                                    std::pair("n_sel", c.n_sel),
                                    std::pair("w", c.w),
                                    std::pair("local_blocks", c.local_blocks)}) {
    require(value >= 1 && value <= kMaxSize,
            std::string(name) + " = " + std::to_string(value) + ", wanted 1 to 2^20");
  }
  require(c.init_blocks >= 0 && c.init_blocks <= kMaxSize, "init_blocks must be 0 to 2^20");
  require(c.gate_hidden >= 0 && c.gate_hidden <= kMaxSize, "gate_hidden must be 0 to 2^20");
  require_divides("n_kv_groups", c.n_kv_groups, "n_heads", c.n_heads);
  require_divides("d", c.d, "l", c.l);
  require_divides("d", c.d, "l_sel", c.l_sel);
  require(c.d_k % 2 == 0, "d_k = " + std::to_string(c.d_k) + " must be even");
  require(c.n_sel >= c.init_blocks + c.local_blocks,
          "n_sel = " + std::to_string(c.n_sel) + " must be at least init_blocks + local_blocks = " +
              std::to_string(c.init_blocks + c.local_blocks));
  require(std::isfinite(c.rope_base) && c.rope_base > 0, "rope_base must be positive");
  require(std::isfinite(c.rope_scale) && c.rope_scale > 0, "rope_scale must be positive");
  require(std::isfinite(c.gate_temp) && c.gate_temp > 0, "gate_temp must be positive");
}

}  // namespace oracles
