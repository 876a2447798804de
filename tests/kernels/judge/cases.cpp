#include "tests/kernels/judge/cases.h"

#include <algorithm>
#include <array>
#include <random>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "tests/kernels/judge/covering_pairs.h"

namespace judge {
namespace {

namespace nk = nsa::kernels;

// The paper's block sizes, with few blocks and a short window so that something is left out early.
Case base_case() {
  Case one;
  auto& p = one.problem;
  p.groups = 2;
  p.heads = 4;
  p.d_k = 64;
  p.d_v = 64;
  p.n_sel = 5;
  p.w = 128;
  one.lengths = {331};
  return one;
}

std::string text_of(const Case& one) {
  const auto& p = one.problem;
  std::string text = p.element == nk::Element::bf16 ? "bf16" : "fp16";
  const auto add = [&](const char* name, std::int64_t value) {
    text += std::string(" ") + name + std::to_string(value);
  };
  add("G", p.groups);
  add("h", p.heads);
  add("dk", p.d_k);
  add("dv", p.d_v);
  add("n", p.n_sel);
  add("w", p.w);
  if (p.l != 32) add("l", p.l);
  if (p.d != 16) add("d", p.d);
  if (p.phi == nk::Phi::conv) text += " conv";
  if (p.gate_form == nk::GateForm::per_head) text += " gate/head";
  if (p.gate_type == nk::GateType::float32) text += " gate32";
  if (p.overlap == nk::Overlap::per_stride) text += " overlap";
  if (p.init_blocks != 1) add("init", p.init_blocks);
  if (p.local_blocks != 2) add("local", p.local_blocks);
  add("pattern", static_cast<int>(one.pattern));
  add("layout", static_cast<int>(one.layout));
  if (p.first != 0) add("first", p.first);
  if (p.least_joined_tiles == 0) text += " joined";
  text += p.varlen ? " varlen" : " S";
  for (const std::int64_t length : one.lengths) text += " " + std::to_string(length);
  return text;
}

void add_case(std::vector<CheckedCase>& cases,
              const char* part,
              CheckedCase checked,
              std::uint64_t seed) {
  checked.one.seed = seed * 1000 + cases.size() + 1;
  checked.one.name = std::string(part) + " " + std::to_string(cases.size()) + ": " +
                     text_of(checked.one) + (checked.steps ? " steps" : "");
  settle(checked.one);
  cases.push_back(std::move(checked));
}

std::vector<std::int64_t> edges(const nk::Problem& p) {
  return {1,
          p.l - 1,
          p.l,
          p.l + 1,
          p.l_sel - 1,
          p.l_sel,
          p.l_sel + 1,
          2 * p.l_sel,
          p.w - 1,
          p.w,
          p.w + 1,
          2 * p.w,
          331,
          400};
}

constexpr std::array kHeads{1, 2, 4, 6, 8, 12, 16};  // of a group

std::vector<CheckedCase> smoke(std::uint64_t seed) {
  std::vector<CheckedCase> cases;
  for (const int heads : {1, 6, 16}) {
    for (const bool steps : {false, true}) {
      CheckedCase checked{base_case(), steps};
      checked.one.problem.heads = heads;
      add_case(cases, "smoke", checked, seed);
    }
  }
  CheckedCase wide{base_case()};
  wide.one.problem.d_k = wide.one.problem.d_v = 128;
  wide.one.problem.heads = 16;
  add_case(cases, "smoke", wide, seed);
  CheckedCase half = wide;
  half.one.problem.element = nk::Element::fp16;
  half.one.problem.d_k = 192;
  half.one.problem.heads = 3;
  add_case(cases, "smoke", half, seed);
  CheckedCase packed{base_case()};
  packed.one.problem.varlen = true;
  packed.one.lengths = {0, 1, 31, 200, 0, 64, 129};
  add_case(cases, "smoke", packed, seed);
  return cases;
}

std::vector<CheckedCase> every_edge(std::uint64_t seed) {
  std::vector<CheckedCase> cases;
  for (const std::int64_t length : edges(base_case().problem)) {
    for (const bool steps : {false, true}) {
      CheckedCase checked{base_case(), steps};
      checked.one.problem.heads = 6;
      checked.one.lengths = {length};
      add_case(cases, "edges", checked, seed);
    }
  }
  CheckedCase paper{base_case()};
  paper.one.problem.n_sel = 16;
  paper.one.problem.w = 512;
  paper.one.problem.groups = 1;
  paper.one.problem.heads = 2;
  for (const std::int64_t length : {511, 512, 513, 1024, 1103, 1531}) {
    paper.one.lengths = {length};
    add_case(cases, "edges", paper, seed);
  }
  return cases;
}

std::vector<CheckedCase> pairs(std::uint64_t seed) {
  constexpr std::array kDk{32, 64, 96, 128, 192};
  constexpr std::array kDv{32, 64, 96, 128};
  const auto lengths = edges(base_case().problem);
  const std::vector<int> sizes{static_cast<int>(kHeads.size()),
                               static_cast<int>(kDk.size()),
                               static_cast<int>(kDv.size()),
                               2,
                               static_cast<int>(lengths.size()),
                               6,
                               3,
                               2,
                               2,
                               2,
                               2,
                               3};
  std::vector<CheckedCase> cases;
  for (const auto& row : covering_pairs(sizes, seed)) {
    CheckedCase checked{base_case()};
    auto& p = checked.one.problem;
    p.groups = row[0] >= 5 ? 1 : 2;
    p.heads = kHeads[row[0]];
    p.d_k = kDk[row[1]];
    p.d_v = kDv[row[2]];
    p.element = row[3] == 0 ? nk::Element::bf16 : nk::Element::fp16;
    checked.one.pattern = static_cast<Pattern>(row[5]);
    checked.one.layout = static_cast<Layout>(row[6]);
    p.phi = row[7] == 0 ? nk::Phi::avg : nk::Phi::conv;
    p.gate_form = row[8] == 0 ? nk::GateForm::per_group : nk::GateForm::per_head;
    p.gate_type = row[9] == 0 ? nk::GateType::element : nk::GateType::float32;
    p.overlap = row[10] == 0 ? nk::Overlap::fractional : nk::Overlap::per_stride;
    const std::int64_t length = lengths[row[4]];
    if (row[11] == 0) checked.one.lengths = {length};
    if (row[11] == 1) checked.one.lengths = {length, length};
    if (row[11] == 2) {
      p.varlen = true;
      checked.one.lengths = {length, 0, 1, p.l - 1, 67};
    }
    checked.steps = cases.size() % 4 == 3;
    // fp16 has no room for the logits of sharp queries' gradients of every row: their truth is finite all the same.
    add_case(cases, "pairs", checked, seed);
  }
  return cases;
}

std::vector<CheckedCase> varlen(std::uint64_t seed) {
  std::vector<CheckedCase> cases;
  const std::vector<std::vector<std::int64_t>> packs = {{0, 0, 5},
                                                        {1, 1, 1, 1},
                                                        {31, 32, 33, 63, 64, 65},
                                                        {127, 0, 128, 129, 300},
                                                        {400, 1, 0, 0, 250},
                                                        {16, 48, 17, 15, 80, 2, 63, 1}};
  for (const auto& lengths : packs) {
    for (const int heads : {1, 6}) {
      CheckedCase checked{base_case(), heads == 1};
      checked.one.problem.varlen = true;
      checked.one.problem.heads = heads;
      checked.one.lengths = lengths;
      checked.one.layout = heads == 1 ? Layout::with_gaps : Layout::positions_first;
      add_case(cases, "varlen", checked, seed);
    }
  }
  return cases;
}

std::vector<CheckedCase> patterns(std::uint64_t seed) {
  std::vector<CheckedCase> cases;
  for (int pattern = 0; pattern < 6; ++pattern) {
    for (const auto element : {nk::Element::bf16, nk::Element::fp16}) {
      CheckedCase checked{base_case()};
      checked.one.pattern = static_cast<Pattern>(pattern);
      checked.one.problem.element = element;
      checked.one.lengths = {523};
      checked.one.problem.heads = 3;
      add_case(cases, "patterns", checked, seed);
    }
  }
  CheckedCase forced{base_case()};
  forced.one.problem.init_blocks = 0;
  forced.one.problem.local_blocks = 1;
  add_case(cases, "patterns", forced, seed);
  forced.one.problem.init_blocks = 2;
  forced.one.problem.local_blocks = 3;
  add_case(cases, "patterns", forced, seed);
  forced.one.problem.n_sel = 8;
  forced.one.problem.chunk_bytes = 1;
  add_case(cases, "patterns", forced, seed);
  CheckedCase small{base_case()};
  small.one.problem.l = 16;
  small.one.problem.d = 8;
  small.one.problem.l_sel = 32;
  small.one.problem.w = 64;
  add_case(cases, "patterns", small, seed);
  // Blocks whose scores are made by way of shared memory.
  for (const auto& [l, d] : {std::pair{32, 8}, std::pair{16, 16}, std::pair{64, 16}}) {
    CheckedCase other{base_case()};
    other.one.problem.l = l;
    other.one.problem.d = d;
    add_case(cases, "patterns", other, seed);
  }
  // One block does all branches of a tile; other cases have too few tiles for it.
  for (const int width : {64, 128}) {
    for (const auto element : {nk::Element::bf16, nk::Element::fp16}) {
      CheckedCase joined{base_case()};
      joined.one.problem.least_joined_tiles = 0;
      joined.one.problem.heads = width == 64 ? 6 : 16;
      joined.one.problem.element = element;
      joined.one.problem.d_k = joined.one.problem.d_v = width;
      add_case(cases, "patterns", joined, seed);
      joined.one.problem.varlen = true;
      joined.one.lengths = {0, 1, 31, 200, 0, 64, 129};
      add_case(cases, "patterns", joined, seed);
    }
  }
  CheckedCase later{base_case()};
  later.one.problem.first = 333;
  later.one.backward = false;
  for (const std::int64_t length : {1, 7, 70}) {
    later.one.lengths = {length};
    later.saves = length != 7;
    add_case(cases, "patterns", later, seed);
  }
  return cases;
}

// Sizes around the square root of 2^31 and above, where an index of 32 bits breaks; some rows of each.
std::vector<CheckedCase> large(std::uint64_t seed) {
  std::vector<CheckedCase> cases;
  struct Size {
    std::int64_t length;
    int groups, heads, width;
  };
  for (const Size& size : {Size{8192, 2, 6, 64},
                           Size{46341, 1, 1, 64},
                           Size{65536, 1, 2, 64},
                           Size{65600, 1, 1, 128}}) {
    CheckedCase checked{base_case()};
    auto& p = checked.one.problem;
    p.groups = size.groups;
    p.heads = size.heads;
    p.d_k = p.d_v = size.width;
    p.n_sel = 16;
    p.w = 512;
    checked.one.lengths = {size.length};
    std::mt19937_64 random(seed);
    auto& rows = checked.one.rows;
    for (const std::int64_t t :
         {0L, 1L, 63L, 1023L, 2047L, 46339L, 46340L, 46341L, 65535L, size.length - 1})
      rows.push_back(t);
    for (int i = 0; i < 40; ++i) rows.push_back(static_cast<std::int64_t>(random() % size.length));
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    rows.erase(
        std::remove_if(rows.begin(), rows.end(), [&](std::int64_t t) { return t >= size.length; }),
        rows.end());
    add_case(cases, "large", checked, seed);
  }
  return cases;
}

std::vector<CheckedCase> repeats(std::uint64_t seed) {
  std::vector<CheckedCase> cases;
  for (const int width : {64, 128}) {
    CheckedCase checked{base_case()};
    auto& p = checked.one.problem;
    p.heads = width == 64 ? 6 : 16;
    p.d_k = p.d_v = width;
    p.chunk_bytes = width == 64 ? std::size_t{1} << 20 : std::size_t{128} << 20;
    checked.one.lengths = {700, 700};
    checked.repeats = 50;
    p.least_joined_tiles = 0;
    if (width == 128) {
      p.varlen = true;
      checked.one.lengths = {500, 0, 130};
    }
    add_case(cases, "repeats", checked, seed);
  }
  return cases;
}

// Every number of heads with every edge length, in both element types, at one width.
std::vector<CheckedCase> product(std::uint64_t seed) {
  std::vector<CheckedCase> cases;
  for (const nk::Element element : {nk::Element::bf16, nk::Element::fp16}) {
    for (const int heads : kHeads) {
      for (const std::int64_t length : edges(base_case().problem)) {
        CheckedCase checked{base_case()};
        checked.one.problem.element = element;
        checked.one.problem.heads = heads;
        checked.one.lengths = {length};
        add_case(cases, "product", checked, seed);
      }
    }
  }
  return cases;
}

struct Part {
  std::string_view name;
  std::vector<CheckedCase> (*cases)(std::uint64_t seed);
};

constexpr std::array<Part, 8> kParts{{{"smoke", smoke},
                                      {"edges", every_edge},
                                      {"varlen", varlen},
                                      {"patterns", patterns},
                                      {"repeats", repeats},
                                      {"large", large},
                                      {"pairs", pairs},
                                      {"product", product}}};

}  // namespace

std::vector<std::string> part_names() {
  std::vector<std::string> names;
  for (const Part& part : kParts) names.emplace_back(part.name);
  return names;
}

std::vector<CheckedCase> cases_of(const std::string& part, std::uint64_t seed) {
  for (const Part& known : kParts) {
    if (known.name == part) return known.cases(seed);
  }
  throw std::invalid_argument("no part named " + part);
}

}  // namespace judge
