// Offsets that begin again at a power of two, against the same said in loops; what they give is named, with operand, order and
// element; what is wrong elsewhere, or in fewer rows, is not.
#include "oracles/laws/offset_laws.h"

#include <gtest/gtest.h>

#include "oracles/laws/match.h"
#include "tests/oracles/stage_case.h"

namespace oracles::testing {
namespace {

// Number i of vector (b, head, t) of an operand with `heads` heads of `tokens` vectors, read with short offsets.
double read_short(
    const Tensor& x, Index heads, const OffsetForm& form, Index b, Index head, Index t, Index i) {
  const Index tokens = x.shape[x.shape.size() - 2];
  const Index width = x.shape.back();
  const bool first = form.order == Order::heads_first;
  const Index vector = first ? (b * heads + head) * tokens + t : (b * tokens + t) * heads + head;
  const Index at = (vector * width + i) % (Index{1} << form.bits);
  const Index from = at / width;
  const Index inner = first ? from % tokens : from % heads;
  const Index outer = first ? from / tokens % heads : from / heads % tokens;
  const Index from_head = first ? outer : inner;
  const Index from_token = first ? inner : outer;
  const Index from_b = from / (heads * tokens);
  return x.data[static_cast<std::size_t>(
      ((from_b * heads + from_head) * tokens + from_token) * width + at % width)];
}

// The window branch, number by number.
Tensor window_read_short(const Case& s, const OffsetForm& form) {
  const Tensor& q = s.stages.input(Stage::q);
  const Tensor& k = s.stages.input(Stage::k_win);
  const Tensor& v = s.stages.input(Stage::v_win);
  const Index groups = s.c().n_kv_groups;
  const OffsetForm right{form.operand, Order::heads_first, 62};
  const auto form_of = [&](Operand operand) {
    const bool both = form.operand == Operand::keys_and_values && operand != Operand::queries;
    return form.operand == operand || both ? form : right;
  };
  return built(
      {s.batch(), groups, s.heads(), s.rows(), s.c().d_v}, [&](const std::vector<Index>& at) {
        const Index t = at[3];
        const Index head = at[1] * s.heads() + at[2];
        Vector out(static_cast<std::size_t>(s.c().d_v), 0.0);
        double sum = 0;
        for (Index u = std::max<Index>(0, t - s.c().w + 1); u <= t; ++u) {
          double logit = 0;
          for (Index i = 0; i < s.c().d_k; ++i) {
            logit += read_short(q, s.c().n_heads, form_of(Operand::queries), at[0], head, t, i) *
                     read_short(k, groups, form_of(Operand::keys), at[0], at[1], u, i);
          }
          const double weight = std::exp(logit / std::sqrt(static_cast<double>(s.c().d_k)));
          sum += weight;
          for (Index i = 0; i < s.c().d_v; ++i) {
            out[static_cast<std::size_t>(i)] +=
                weight * read_short(v, groups, form_of(Operand::values), at[0], at[1], u, i);
          }
        }
        for (double& number : out) number /= sum;
        return out;
      });
}

Naming named_offsets(const Case& s, Stage stage, const Tensor& found) {
  const Tensor wanted = s.stages.right(stage);
  const Allowed allowed{0x1p-20, finite_scale(wanted), 0x1p-24};
  return name_stage(
      s.stages, stage, found, wanted, wrong_vectors(found, wanted, allowed.of(wanted)), allowed);
}

constexpr std::array kForms = {OffsetForm{Operand::queries, Order::heads_first, 11},
                               OffsetForm{Operand::queries, Order::tokens_first, 11},
                               OffsetForm{Operand::keys, Order::heads_first, 9},
                               OffsetForm{Operand::values, Order::tokens_first, 8},
                               OffsetForm{Operand::keys_and_values, Order::heads_first, 9}};

int reaches(const Tensor& x) {
  int bits = 0;
  while ((std::size_t{2} << bits) < x.data.size()) ++bits;
  return bits;
}

TEST(OffsetLaws, GiveWhatLoopsGiveAndAreNamed) {
  const Case& s = cases().front();
  for (OffsetForm form : kForms) {
    const bool queries = form.operand == Operand::queries;
    form.bits = reaches(s.stages.input(queries ? Stage::q : Stage::k_win)) - form.bits % 2;
    const Tensor found = output_under(form, s.stages, Branch::win);
    const Tensor plain = window_read_short(s, form);
    ASSERT_EQ(found.shape, plain.shape);
    for (std::size_t i = 0; i < found.data.size(); ++i) {
      ASSERT_NEAR(found.data[i], plain.data[i], 1e-12);
    }
    const Naming naming = named_offsets(s, Stage::o_win, found);
    ASSERT_FALSE(naming.right.fits());
    ASSERT_NE(naming.alone(), nullptr) << naming.text();
    EXPECT_EQ(naming.alone()->law.name, kOffsetsBeginAgain.name);
    EXPECT_NE(naming.alone()->detail.find("2^" + std::to_string(form.bits)), std::string::npos)
        << naming.alone()->detail;
  }
}

TEST(OffsetLaws, EveryRowBeforeTheWrapIsRight) {
  const Case& s = cases().front();
  const OffsetForm form{Operand::queries, Order::heads_first, reaches(s.stages.input(Stage::q))};
  const Tensor wanted = s.stages.right(Stage::o_sel);
  const Tensor found = output_under(form, s.stages, Branch::sel);
  const auto first = static_cast<std::size_t>((Index{1} << form.bits) / s.c().d_k);
  const auto wrong = wrong_vectors(found, wanted, 1e-9);
  ASSERT_FALSE(wrong.empty());
  EXPECT_GE(wrong.front(), first);
}

// Half of the rows that the law would change, and a head that is wrong by itself.
TEST(OffsetLaws, AreNotNamedWhereTheyDoNotGiveAll) {
  const Case& s = cases().front();
  const OffsetForm form{Operand::queries, Order::heads_first, reaches(s.stages.input(Stage::q))};
  const Tensor wanted = s.stages.right(Stage::o_win);
  Tensor half = output_under(form, s.stages, Branch::win);
  const auto wrong = wrong_vectors(half, wanted, 1e-9);
  const auto width = static_cast<std::size_t>(s.c().d_v);
  for (std::size_t i = 0; i < wrong.size(); i += 2) {
    std::copy_n(wanted.data.begin() + static_cast<std::ptrdiff_t>(wrong[i] * width),
                width,
                half.data.begin() + static_cast<std::ptrdiff_t>(wrong[i] * width));
  }
  Tensor tail = wanted;
  for (std::size_t i = wrong.front() * width; i < tail.data.size(); ++i) tail.data[i] += 0.5;
  for (const Tensor& found : {half, tail}) {
    for (const LawFit& fit : named_offsets(s, Stage::o_win, found).fitting) {
      EXPECT_NE(fit.law.name, kOffsetsBeginAgain.name);
    }
  }
}

}  // namespace
}  // namespace oracles::testing
