#include "oracles/laws/offset_laws.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "oracles/attention/attend.h"

namespace oracles {
namespace {

constexpr std::array kOperands = {std::pair{Operand::queries, "queries"},
                                  std::pair{Operand::keys, "keys"},
                                  std::pair{Operand::values, "values"},
                                  std::pair{Operand::keys_and_values, "keys and values"}};
constexpr std::array kOrders = {std::pair{Order::heads_first, "[B,H,S,D]"},
                                std::pair{Order::tokens_first, "[B,S,H,D]"}};
constexpr int kPowers = 4;  // the largest that an operand reaches over, and those below it

bool reads(Operand operand, Operand wanted) {
  const bool both = operand == Operand::keys_and_values && wanted != Operand::queries;
  return operand == wanted || both;
}

// An operand [B,..,S,D], heads apart in one dimension or two, and where its numbers lie in memory.
class Memory {
 public:
  Memory(const Tensor& x, Order order)
      : tokens_(x.shape[x.shape.size() - 2]), width_(x.shape.back()), order_(order) {
    for (std::size_t i = 1; i + 2 < x.shape.size(); ++i) heads_ *= x.shape[i];
  }
  // Of a vector of the tensor in its own order, by its place there or in memory, and back: both ways exchange heads and tokens.
  [[nodiscard]] std::int64_t in_memory(std::int64_t vector) const {
    return exchanged(vector, tokens_, heads_);
  }
  [[nodiscard]] std::int64_t in_tensor(std::int64_t vector) const {
    return exchanged(vector, heads_, tokens_);
  }
  [[nodiscard]] std::int64_t width() const { return width_; }

 private:
  [[nodiscard]] std::int64_t exchanged(std::int64_t vector,
                                       std::int64_t inner,
                                       std::int64_t outer) const {
    if (order_ == Order::heads_first) return vector;
    const std::int64_t in_batch = vector % (inner * outer);
    return vector - in_batch + in_batch % inner * outer + in_batch / inner;
  }

  std::int64_t heads_ = 1;
  std::int64_t tokens_;
  std::int64_t width_;
  Order order_;
};

std::int64_t vectors_of(const Tensor& x) {
  return static_cast<std::int64_t>(x.data.size()) / x.shape.back();
}

Tensor wrapped(const Tensor& x, Order order, int bits) {
  const Memory memory(x, order);
  const std::int64_t mask = (std::int64_t{1} << bits) - 1;
  Tensor read = x;
  for (std::int64_t vector = 0; vector < vectors_of(x); ++vector) {
    for (std::int64_t i = 0; i < memory.width(); ++i) {
      const std::int64_t at = (memory.in_memory(vector) * memory.width() + i) & mask;
      const std::int64_t from =
          memory.in_tensor(at / memory.width()) * memory.width() + at % memory.width();
      read.data[static_cast<std::size_t>(vector * memory.width() + i)] =
          x.data[static_cast<std::size_t>(from)];
    }
  }
  return read;
}

// Vectors of the tensor, in its own order, of which a number lies from 2^bits on.
std::vector<bool> beyond(const Tensor& x, Order order, int bits) {
  const Memory memory(x, order);
  std::vector<bool> are(static_cast<std::size_t>(vectors_of(x)));
  for (std::int64_t vector = 0; vector < vectors_of(x); ++vector) {
    are[static_cast<std::size_t>(vector)] =
        (memory.in_memory(vector) + 1) * memory.width() > std::int64_t{1} << bits;
  }
  return are;
}

const Tensor& operand_of(const Stages& in, Branch branch, Operand operand) {
  if (operand == Operand::queries) return in.input(Stage::q);
  return in.input(operand == Operand::values ? value_stage(branch) : key_stage(branch));
}

// Vectors [B,G,h,R] of the branch's output that read something from 2^bits on.
std::vector<bool> touched(const OffsetForm& form, const Stages& in, Branch branch) {
  std::vector<bool> of_operand =
      beyond(operand_of(in, branch, form.operand), form.order, form.bits);
  if (form.operand == Operand::queries) return of_operand;
  const Sizes& n = in.sizes();
  const std::int64_t keys = operand_of(in, branch, form.operand).shape[2];
  std::vector<bool> of_output(static_cast<std::size_t>(n.batch_groups() * n.heads * n.rows));
  for (std::int64_t group = 0; group < n.batch_groups(); ++group) {
    std::vector<std::int64_t> before = {0};
    for (std::int64_t key = 0; key < keys; ++key) {
      before.push_back(before.back() + of_operand[static_cast<std::size_t>(group * keys + key)]);
    }
    for (std::int64_t row = 0; row < n.rows; ++row) {
      const KeyList list = visible_keys(in.query(branch, group, row));
      const bool reads_any = std::any_of(list.begin(), list.end(), [&](const KeyRange& range) {
        return before[static_cast<std::size_t>(range.end)] >
               before[static_cast<std::size_t>(range.begin)];
      });
      for (std::int64_t head = 0; head < n.heads; ++head) {
        of_output[static_cast<std::size_t>((group * n.heads + head) * n.rows + row)] = reads_any;
      }
    }
  }
  return of_output;
}

// All that is wrong is touched, and most that is touched is wrong.
bool may_give(const std::vector<bool>& touched, const std::vector<std::size_t>& wrong) {
  const auto count = static_cast<std::size_t>(std::count(touched.begin(), touched.end(), true));
  return 2 * wrong.size() >= count &&
         std::all_of(wrong.begin(), wrong.end(), [&](std::size_t i) { return touched[i]; });
}

int bits_below(std::int64_t elements) {
  int bits = 0;
  while ((std::int64_t{2} << bits) < elements) ++bits;
  return bits;  // the largest power of two below the number
}

}  // namespace

Tensor output_under(const OffsetForm& form, const Stages& in, Branch branch) {
  const auto read = [&](Operand operand) {
    const Tensor& x = operand_of(in, branch, operand);
    return reads(form.operand, operand) ? wrapped(x, form.order, form.bits) : x;
  };
  const Tensor q = read(Operand::queries);
  const Tensor k = read(Operand::keys);
  const Tensor v = read(Operand::values);
  const std::vector<KeyBank> banks = key_banks(k, v);
  if (branch == Branch::sel) (void)in.attended();  // computed before threads ask for it
  Tensor out = zeros(in.shape_of(output_stage(branch)));
  for_each_row(in.sizes(),
               in.layer().threads,
               [&](std::int64_t group, std::int64_t row, std::vector<double>& work) {
                 attend(banks[static_cast<std::size_t>(group)],
                        visible_keys(in.query(branch, group, row)),
                        head_rows(q, group, row),
                        work,
                        head_rows(out, group, row));
               });
  return out;
}

std::vector<LawFit> offset_laws(const Stages& in,
                                Stage stage,
                                const std::vector<std::size_t>& wrong,
                                const std::function<bool(const Tensor& output)>& gives_all) {
  std::vector<LawFit> fits;
  const Branch branch = branch_of(stage);
  if (!in.has_all_rows() || stage != output_stage(branch)) return fits;
  for (const auto& [operand, operand_name] : kOperands) {
    for (const auto& [order, order_name] : kOrders) {
      const auto elements = static_cast<std::int64_t>(operand_of(in, branch, operand).data.size());
      const int most = bits_below(elements);
      for (int bits = most; bits > most - kPowers && bits > 0; --bits) {
        const OffsetForm form{operand, order, bits};
        if (elements < 2 || !may_give(touched(form, in, branch), wrong)) continue;
        if (!gives_all(output_under(form, in, branch))) continue;
        fits.push_back({kOffsetsBeginAgain,
                        {},
                        1,
                        std::string(operand_name) + " as " + order_name + " from element 2^" +
                            std::to_string(bits)});
      }
    }
  }
  merge_forms(fits);
  return fits;
}

}  // namespace oracles
