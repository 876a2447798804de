#include "oracles/training/data_rules.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

namespace oracles {
namespace {

std::int64_t windows(const DataConfig& c, Text text) {
  return static_cast<std::int64_t>(text.size()) / c.seq_len;
}

// What is done in another way.
struct DataChange {
  // The number of the sequence in a row. Steps before the first have numbers that wrap around.
  std::function<std::uint64_t(const DataConfig&, BatchPlace, std::int64_t row)> number = {};
  // Another config; none where the law has no meaning.
  std::function<std::optional<DataConfig>(DataConfig, const BatchPlace&, Text)> config = {};
  // Where the window of a number begins, for texts only.
  std::function<std::int64_t(const DataConfig&, Text, std::uint64_t)> begin = {};
  std::int64_t shift = 0;  // of every sequence, in tokens
};

// One sequence under a rule; false where the rule has no meaning.
bool write_under(const DataChange& rule,
                 const DataConfig& config,
                 Text text,
                 std::uint64_t number,
                 std::span<std::int64_t> to) {
  if (config.source != Source::text) {
    if (rule.begin || rule.shift < 0) {
      return false;
    }
    std::vector<std::int64_t> longer(to.size() + static_cast<std::size_t>(rule.shift));
    write_sequence(config, text, number, longer);
    std::copy(longer.begin() + rule.shift, longer.end(), to.begin());
    return true;
  }
  if (windows(config, text) < 1) {
    return false;
  }
  const std::int64_t begin =
      (rule.begin ? rule.begin(config, text, number) : window_begin(config, text, number)) +
      rule.shift;
  if (begin < 0 ||
      begin + static_cast<std::int64_t>(to.size()) > static_cast<std::int64_t>(text.size())) {
    return false;
  }
  std::copy_n(text.begin() + begin, to.size(), to.begin());
  return true;
}

// None where the rule has no meaning.
std::optional<Expected> batch_under(const DataChange& rule, const BatchFacts& of) {
  const auto& [config, place, text] = of;
  const std::optional<DataConfig> own = rule.config ? rule.config(config, place, text) : config;
  if (!own) {
    return std::nullopt;
  }
  IntTensor tokens = filled<std::int64_t>({config.batch_size, config.seq_len}, 0);
  for (std::int64_t row = 0; row < config.batch_size; ++row) {
    const std::uint64_t number =
        rule.number ? rule.number(*own, place, row) : sequence_number(*own, place, row);
    const std::span<std::int64_t> to = std::span(tokens.data)
                                           .subspan(static_cast<std::size_t>(row * config.seq_len),
                                                    static_cast<std::size_t>(config.seq_len));
    if (!write_under(rule, *own, text, number, to)) {
      return std::nullopt;
    }
  }
  return exact(tokens);
}

DataRule rule_of(const Law& law, DataChange change) {
  return {law, [change = std::move(change)](const BatchFacts& of, std::size_t) {
            return batch_under(change, of);
          }};
}

std::vector<DataRule> place_rules() {
  using Place = BatchPlace;
  const auto moved = [](std::string_view name, std::string_view about, auto change) {
    return rule_of({name, about},
                   {.number = [change](const DataConfig& c, Place place, std::int64_t row) {
                     change(c, place);
                     return sequence_number(c, place, row);
                   }});
  };
  return {moved("data_rank_ignored",
                "every rank gets the sequences of rank 0",
                [](const DataConfig&, Place& p) { p.rank = 0; }),
          moved("data_ranks_swapped",
                "rank r gets the sequences of rank world - 1 - r",
                [](const DataConfig& c, Place& p) { p.rank = c.world - 1 - p.rank; }),
          moved("data_rank_next",
                "rank r gets the sequences of rank r + 1, the last those of rank 0",
                [](const DataConfig& c, Place& p) { p.rank = (p.rank + 1) % c.world; }),
          moved("data_micro_ignored",
                "every micro-batch is the first of its step",
                [](const DataConfig&, Place& p) { p.micro = 0; }),
          moved("data_micros_reversed",
                "the micro-batches of a step in reverse order",
                [](const DataConfig& c, Place& p) { p.micro = c.accumulate - 1 - p.micro; }),
          moved("data_step_stuck",
                "every step gets the sequences of step 1",
                [](const DataConfig&, Place& p) { p.step = 1; }),
          moved("data_step_behind",
                "the sequences of the step before",
                [](const DataConfig&, Place& p) { p.step -= 1; }),
          moved("data_step_ahead",
                "the sequences of the next step",
                [](const DataConfig&, Place& p) { p.step += 1; })};
}

// m counts the micro-batches of the whole run.
std::int64_t run_micro(const DataConfig& c, const BatchPlace& p) {
  return (p.step - 1) * c.accumulate + p.micro;
}

std::vector<DataRule> order_rules() {
  const auto numbered = [](std::string_view name, std::string_view about, auto number) {
    return rule_of({name, about},
                   {.number = [number](const DataConfig& c, BatchPlace p, std::int64_t row) {
                     return static_cast<std::uint64_t>(number(c, p, row));
                   }});
  };
  using C = const DataConfig&;
  using P = const BatchPlace&;
  return {
      numbered("data_accumulate_ignored",
               "steps follow each other after one micro-batch: the next step repeats some",
               [](C c, P p, std::int64_t row) {
                 return ((p.step - 1 + p.micro) * c.world + p.rank) * c.batch_size + row;
               }),
      numbered("data_world_ignored",
               "micro-batches follow each other after one rank's sequences",
               [](C c, P p, std::int64_t row) {
                 return (run_micro(c, p) + p.rank) * c.batch_size + row;
               }),
      numbered("data_rows_overlap",
               "batches begin one sequence apart, whatever their size",
               [](C c, P p, std::int64_t row) { return run_micro(c, p) * c.world + p.rank + row; }),
      numbered("data_rows_equal",
               "every row of a batch is its first",
               [](C c, P p, std::int64_t) { return sequence_number(c, p, 0); }),
      numbered(
          "data_rows_reversed",
          "the rows of a batch in reverse order",
          [](C c, P p, std::int64_t row) { return sequence_number(c, p, c.batch_size - 1 - row); }),
      numbered("data_ranks_interleaved",
               "sequences are dealt to the ranks in turn, row by row",
               [](C c, P p, std::int64_t row) {
                 return (run_micro(c, p) * c.batch_size + row) * c.world + p.rank;
               }),
      numbered("data_micros_within_ranks",
               "a rank's micro-batches of a step lie together, before the next rank's",
               [](C c, P p, std::int64_t row) {
                 const std::int64_t turn = (p.step - 1) * c.world + p.rank;
                 return (turn * c.accumulate + p.micro) * c.batch_size + row;
               }),
      numbered("data_sequence_ahead",
               "every sequence is the next one",
               [](C c, P p, std::int64_t row) { return sequence_number(c, p, row) + 1; })};
}

using ConfigChange = void (*)(DataConfig&, const BatchPlace&);

// `where`: the law has a meaning there.
DataRule changed(std::string_view name,
                 std::string_view about,
                 ConfigChange change,
                 std::function<bool(const DataConfig&)> where = {}) {
  const auto config = [change, where = std::move(where)](DataConfig c,
                                                         const BatchPlace& place,
                                                         Text) -> std::optional<DataConfig> {
    if (where && !where(c)) {
      return std::nullopt;
    }
    change(c, place);
    return c;
  };
  return rule_of({name, about}, {.config = config});
}

bool is_long_range(const DataConfig& c) {
  return c.source == Source::long_range;
}
bool is_drawn(const DataConfig& c) {
  return c.source != Source::text;
}

std::vector<DataRule> config_rules() {
  const auto set = [](DataConfig& c, const BatchPlace&) { c.seed = 0; };
  return {changed("data_seed_ignored", "the seed is taken as 0", set),
          changed("data_seed_next",
                  "the seed is one larger",
                  [](DataConfig& c, const BatchPlace&) { c.seed += 1; }),
          changed("data_seed_plus_rank",
                  "every rank adds its number to the seed",
                  [](DataConfig& c, const BatchPlace& p) {
                    c.seed += static_cast<std::uint64_t>(p.rank);
                  }),
          changed(
              "data_last_token_missing",
              "tokens are drawn below vocab_size - 1",
              [](DataConfig& c, const BatchPlace&) { c.vocab_size -= 1; },
              [](const DataConfig& c) { return is_drawn(c) && c.vocab_size > 1; }),
          changed(
              "data_distance_less",
              "tokens repeat the one distance - 1 back",
              [](DataConfig& c, const BatchPlace&) { c.distance -= 1; },
              [](const DataConfig& c) { return is_long_range(c) && c.distance > 1; }),
          changed(
              "data_distance_more",
              "tokens repeat the one distance + 1 back",
              [](DataConfig& c, const BatchPlace&) { c.distance += 1; },
              is_long_range),
          changed(
              "data_distance_doubled",
              "tokens repeat the one 2 * distance back",
              [](DataConfig& c, const BatchPlace&) { c.distance *= 2; },
              [](const DataConfig& c) { return is_long_range(c) && c.distance > 1; }),
          changed(
              "data_never_repeats",
              "the sharpness is taken as 0: the uniform source",
              [](DataConfig& c, const BatchPlace&) { c.sharpness = 0; },
              is_long_range),
          changed(
              "data_always_repeats",
              "the sharpness is taken as 1",
              [](DataConfig& c, const BatchPlace&) { c.sharpness = 1; },
              is_long_range),
          changed(
              "data_sharpness_inverted",
              "tokens repeat with probability 1 - sharpness",
              [](DataConfig& c, const BatchPlace&) { c.sharpness = 1 - c.sharpness; },
              is_long_range)};
}

DataRule source_rule(std::string_view name, std::string_view about, Source source) {
  const auto config = [source](
                          DataConfig c, const BatchPlace&, Text text) -> std::optional<DataConfig> {
    // A long_range source without repetitions has a law of its own.
    if (c.source == source || (source == Source::uniform && is_long_range(c)) ||
        (source == Source::text && windows(c, text) < 1) ||
        (source == Source::long_range && c.distance < 1)) {
      return std::nullopt;
    }
    c.source = source;
    return c;
  };
  return rule_of({name, about}, {.config = config});
}

std::vector<DataRule> source_rules() {
  return {source_rule("data_of_text", "tokens of the text", Source::text),
          source_rule("data_of_uniform", "tokens of the uniform source", Source::uniform),
          source_rule("data_of_long_range", "tokens of the long_range source", Source::long_range)};
}

// windows(text) places, in the order that `place` gives.
std::vector<DataRule> window_rules() {
  return {rule_of({"data_windows_in_order",
                   "the windows of the text one after the other, from its beginning"},
                  {.begin =
                       [](const DataConfig& c, Text text, std::uint64_t number) {
                         const auto count = static_cast<std::uint64_t>(windows(c, text));
                         return static_cast<std::int64_t>(number % count) * c.seq_len;
                       }}),
          rule_of({"data_window_offset_ignored", "the order of the windows begins at window 0"},
                  {.begin =
                       [](const DataConfig& c, Text text, std::uint64_t number) {
                         const std::int64_t all = windows(c, text) * c.seq_len;
                         const std::int64_t first = window_begin(c, text, 0);
                         return (window_begin(c, text, number) - first + all) % all;
                       }}),
          rule_of({"data_window_stride_ignored",
                   "the windows one after the other, from the right first one"},
                  {.begin =
                       [](const DataConfig& c, Text text, std::uint64_t number) {
                         const std::int64_t all = windows(c, text) * c.seq_len;
                         const auto turn = static_cast<std::int64_t>(
                             number % static_cast<std::uint64_t>(windows(c, text)));
                         return (window_begin(c, text, 0) + turn * c.seq_len) % all;
                       }}),
          changed(
              "data_windows_one_longer",
              "the text is cut into windows of seq_len + 1 bytes",
              [](DataConfig& c, const BatchPlace&) { c.seq_len += 1; },
              [](const DataConfig& c) { return !is_drawn(c); }),
          rule_of({"data_one_token_late", "every sequence begins one token later"}, {.shift = 1}),
          rule_of({"data_one_token_early", "every sequence begins one byte of the text earlier"},
                  {.shift = -1})};
}

}  // namespace

const std::vector<DataRule>& data_rules() {
  static const std::vector<DataRule> kRules =
      joined({place_rules(), order_rules(), config_rules(), source_rules(), window_rules()});
  return kRules;
}

Expected exact(const IntTensor& tokens) {
  return {{tokens.shape, {tokens.data.begin(), tokens.data.end()}}, zeros(tokens.shape)};
}

}  // namespace oracles
