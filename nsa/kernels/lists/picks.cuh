// Which list a pick of a query belongs to.
#pragma once

#include "nsa/kernels/common/device.h"
#include "nsa/kernels/lists/params.h"

namespace nsa::kernels {

// A pick of a query, and what tells whether it is in a list.
struct Pick {
  const std::int32_t* at;  // any place where there is no such pick
  bool exists;
  bool is_first;  // of the query
  int current;    // the query's own block
  int slot;       // of block 0
};

// Passes through the queries of a strip.
class StripWalk {
 public:
  NSA_DEVICE StripWalk(const ListParams& p, int group, int token) : p_(p), group_(group) {
    const Sequences& all = p.common.sequences;
    enter(all.find(token, [&](int b) { return all.begin(b); }));
  }

  // Tokens do not fall from one call to the next.
  NSA_DEVICE Pick pick(int token, int number, bool exists) {
    if (exists) {
      while (token >= end_) enter(sequence_ + 1);
    }
    const int query = token - begin_;
    const auto* picks =
        reinterpret_cast<const std::int32_t*>(blocks_ + query * p_.blocks.position) + number;
    return {exists ? picks : reinterpret_cast<const std::int32_t*>(blocks_),
            exists,
            number == 0,
            p_.by_block.quotient(p_.common.sequences.first + (exists ? query : 0)),
            slot_};
  }

 private:
  NSA_DEVICE void enter(int sequence) {
    const Sequences& all = p_.common.sequences;
    sequence_ = sequence;
    begin_ = all.begin(sequence);
    // The last sequence ends with the tokens.
    end_ = sequence + 1 < all.count ? all.begin(sequence + 1) : 0x7fffffff;
    slot_ = static_cast<int>(block_slot(p_.common.geometry, all, sequence));
    blocks_ = at_sequence(p_.blocks, all, sequence) + group_ * p_.blocks.head;
  }

  const ListParams& p_;
  int group_;
  int sequence_;
  int begin_;
  int end_;
  int slot_;
  const char* blocks_;
};

// Slots of picks, -1 where one is in no list.
template <int kCount>
NSA_DEVICE void find_slots(const ListParams& p, const Pick (&picks)[kCount], int (&slots)[kCount]) {
  int block[kCount];
  int previous[kCount];
  NSA_UNROLL
  for (int k = 0; k < kCount; ++k) {
    const Pick& pick = picks[k];
    block[k] = *pick.at;
    previous[k] = pick.at[pick.exists && !pick.is_first ? -1 : 0];
  }
  NSA_UNROLL
  for (int k = 0; k < kCount; ++k) {
    const Pick& pick = picks[k];
    const int before = pick.is_first ? -1 : previous[k];
    const bool listed =
        pick.exists && is_listed(p.common.geometry, p.forced_apart, pick.current, block[k], before);
    slots[k] = listed ? pick.slot + block[k] : -1;
  }
}

}  // namespace nsa::kernels
