#include "oracles/training/data.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

#include "oracles/counter_random.h"

namespace oracles {
namespace {

void require(bool holds, const std::string& what, std::int64_t found, const std::string& wanted) {
  if (!holds) {
    throw std::invalid_argument("data: " + what + " = " + std::to_string(found) + ", wanted " +
                                wanted);
  }
}

std::uint64_t window_count(const DataConfig& config, Text text) {
  return text.size() / static_cast<std::uint64_t>(config.seq_len);
}

// The order of the windows: n -> (stride * n + offset) % W meets every window once.
struct WindowOrder {
  std::uint64_t windows;
  std::uint64_t offset;
  std::uint64_t stride;
};

WindowOrder window_order(const DataConfig& config, Text text) {
  const std::uint64_t windows = window_count(config, text);
  WindowOrder order{windows, draw(config.seed, 0) % windows, draw(config.seed, 1) % windows};
  while (std::gcd(order.stride, windows) != 1) {
    ++order.stride;
  }
  return order;
}

bool repeats(const DataConfig& config, std::uint64_t key, std::int64_t s) {
  return s >= config.distance &&
         unit(draw(key, 2 * static_cast<std::uint64_t>(s))) < config.sharpness;
}

}  // namespace

void validate(const DataConfig& c, Text text) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  for (const auto& [name, value] : {std::pair("accumulate", c.accumulate),
                                    std::pair("world", c.world),
                                    std::pair("batch_size", c.batch_size),
                                    std::pair("seq_len", c.seq_len)}) {
    require(value >= 1 && value <= kMost, name, value, "1 to 2^40");
  }
  if (c.source == Source::text) {
    const auto windows = static_cast<std::int64_t>(window_count(c, text));
    const std::int64_t wanted = c.accumulate * c.world * c.batch_size;
    require(windows >= wanted, "windows of the text", windows, std::to_string(wanted) + " or more");
    return;
  }
  require(c.vocab_size >= 1 && c.vocab_size <= kMost, "vocab_size", c.vocab_size, "1 to 2^40");
  if (c.source == Source::long_range) {
    require(c.distance >= 1, "distance", c.distance, "1 or more");
    if (!(c.sharpness >= 0 && c.sharpness <= 1)) {
      throw std::invalid_argument("data: sharpness = " + std::to_string(c.sharpness) +
                                  ", wanted 0 to 1");
    }
  }
}

std::uint64_t sequence_number(const DataConfig& c, const BatchPlace& place, std::int64_t row) {
  const std::int64_t micro = (place.step - 1) * c.accumulate + place.micro;
  const std::int64_t rank = c.replicated ? 0 : place.rank;
  return static_cast<std::uint64_t>((micro * c.world + rank) * c.batch_size + row);
}

std::int64_t window_begin(const DataConfig& config, Text text, std::uint64_t number) {
  const WindowOrder order = window_order(config, text);
  // __extension__: a type that ISO C++ does not name; the product does not fit 64 bits.
  __extension__ using Wide = unsigned __int128;
  const Wide turn = static_cast<Wide>(order.stride) * (number % order.windows) + order.offset;
  return static_cast<std::int64_t>(turn % order.windows) * config.seq_len;
}

void write_sequence(const DataConfig& config,
                    Text text,
                    std::uint64_t number,
                    std::span<std::int64_t> to) {
  const auto length = static_cast<std::int64_t>(to.size());
  if (config.source == Source::text) {
    const Text window = text.subspan(static_cast<std::size_t>(window_begin(config, text, number)));
    for (std::int64_t s = 0; s < length; ++s) {
      to[s] = window[s];
    }
    return;
  }
  const std::uint64_t key = draw(config.seed, number);
  for (std::int64_t s = 0; s < length; ++s) {
    if (config.source == Source::long_range && repeats(config, key, s)) {
      to[s] = to[s - config.distance];
      continue;
    }
    const std::uint64_t drawn = draw(key, 2 * static_cast<std::uint64_t>(s) + 1);
    to[s] = static_cast<std::int64_t>(drawn % static_cast<std::uint64_t>(config.vocab_size));
  }
}

IntTensor batch_tokens(const DataConfig& config, const BatchPlace& place, Text text) {
  validate(config, text);
  require(place.step >= 1, "step", place.step, "1 or more");
  require(place.micro >= 0 && place.micro < config.accumulate,
          "micro-batch",
          place.micro,
          "0 to " + std::to_string(config.accumulate - 1));
  require(place.rank >= 0 && place.rank < config.world,
          "rank",
          place.rank,
          "0 to " + std::to_string(config.world - 1));
  IntTensor tokens = filled<std::int64_t>({config.batch_size, config.seq_len}, 0);
  for (std::int64_t row = 0; row < config.batch_size; ++row) {
    const std::span<std::int64_t> to(tokens.data);
    write_sequence(config,
                   text,
                   sequence_number(config, place, row),
                   to.subspan(static_cast<std::size_t>(row * config.seq_len),
                              static_cast<std::size_t>(config.seq_len)));
  }
  return tokens;
}

std::vector<std::int64_t> scored_positions(const DataConfig& config, const BatchPlace& place) {
  const std::int64_t most = config.seq_len - 1;
  std::vector<std::int64_t> scored(static_cast<std::size_t>(config.batch_size), most);
  for (std::int64_t row = 0; config.ragged && row < config.batch_size; ++row) {
    const std::uint64_t key = std::numeric_limits<std::uint64_t>::max() - config.seed;
    const std::uint64_t drawn = draw(key, sequence_number(config, place, row));
    scored[static_cast<std::size_t>(row)] =
        1 + static_cast<std::int64_t>(drawn % static_cast<std::uint64_t>(most));
  }
  return scored;
}

std::optional<double> loss_floor(const DataConfig& config,
                                 const IntTensor& tokens,
                                 std::span<const std::int64_t> scored) {
  const auto vocabulary = static_cast<double>(config.vocab_size);
  if (config.source == Source::text) {
    return std::nullopt;
  }
  if (config.source == Source::uniform) {
    return std::log(vocabulary);
  }
  const std::int64_t length = tokens.shape.at(1);
  double sum = 0;
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < tokens.shape[0]; ++row) {
    const std::int64_t* const token = tokens.data.data() + row * length;
    const std::int64_t last = scored.empty() ? length - 1 : scored[static_cast<std::size_t>(row)];
    count += last;
    for (std::int64_t s = 1; s <= last; ++s) {
      double p = 1 / vocabulary;
      if (s >= config.distance) {
        p = (1 - config.sharpness) / vocabulary +
            (token[s] == token[s - config.distance] ? config.sharpness : 0);
      }
      sum -= std::log(p);
    }
  }
  return sum / static_cast<double>(count);
}

}  // namespace oracles
