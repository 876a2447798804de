// One way in which one recorded layer is wrong, and how the same way in several layers and ranks
// becomes one finding.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "harness/checks/attention/record/layer_record.h"
#include "harness/judge/finding.h"

namespace harness::checks {

inline constexpr std::size_t kMostRows = 4096;  // of a site: a finding stays a page of text
// The law of a choice that is no list of blocks: ascending, each once, then -1.
inline constexpr const char* kNotALegalList = "not_a_legal_list";

struct Deviation {
  std::string code;
  std::string branch;
  std::string op;
  std::string param;
  std::string law;                   // the only known wrong law that reproduces it, "" for none
  std::string about;                 // the law in words
  bool fitted = false;               // the law is fitted to the numbers
  std::vector<std::string> laws;     // where several do: no law alone
  std::vector<std::string> tensors;  // that are wrong
  std::vector<int> rows;             // positions, ascending
  std::vector<int> compressed;       // compressed tokens, where rows are not positions
  std::vector<int>
      documents;           // of packed ones, those that are wrong, by their place in the sequence
  std::vector<int> heads;  // when not all are wrong
  std::vector<int> groups;
  std::int64_t row_count = 0;  // (batch, group, row) triples
  std::int64_t rows_in_all = 0;
  std::int64_t tie_rows =
      0;  // of a choice: rows in which blocks of equal score were taken in another order
  double share = 0.0;  // of the rows that would be wrong under the law
  double error = 0.0;  // relative
  double limit = 0.0;
  std::string where;  // they are measured, where that is not the whole tensor
  bool backward = false;

  [[nodiscard]] bool is_forward() const { return !backward && code != "NUMERIC.GRADIENT"; }
};

// Rows, groups and counts of `rows`, out of `in_all`.
void put_rows(const std::vector<BadRow>& rows, std::int64_t in_all, Deviation& seen);

// The law of a sum over heads in which some heads count another time than once: `counts` by head.
void put_shares_of_heads(const std::map<int, double>& counts, Deviation& seen);

struct LayerPlace {
  int rank = 0;
  std::int64_t step = 1;
  int layer = 0;
  auto operator<=>(const LayerPlace&) const = default;
};

// Findings in the order of steps and codes; the same way to be wrong in several layers or ranks is
// one.
class Deviations {
 public:
  void add(const Deviation& seen, const LayerPlace& at);
  [[nodiscard]] std::vector<Finding> findings() const;

 private:
  // step, code, branch, op, param, law
  using Kind =
      std::tuple<std::int64_t, std::string, std::string, std::string, std::string, std::string>;
  struct Merged {
    std::set<int> layers;
    std::set<int> ranks;
    Deviation worst;
    std::set<int> rows;
    std::set<int> compressed;
    std::set<int> documents;
    std::set<int> groups;
    std::set<int> heads;
    bool all_heads = false;
    bool only_input = true;  // nothing but the gradient of a layer's input
    std::int64_t row_count = 0;
    std::int64_t rows_in_all = 0;
    std::int64_t tie_rows = 0;
  };
  [[nodiscard]] static Finding finding(std::int64_t step, const Merged& merged);
  static void add_detail(const Merged& merged, Site& site);

  std::map<Kind, Merged> merged_;
};

}  // namespace harness::checks
