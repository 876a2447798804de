// LibTorch's Reducer has more parameters from release to release. What this code asks of it are the first eight; each
// further one gets the value that keeps what the release before did.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace nsa {

// `Reducer` is c10d::Reducer; `first` are its parameters up to first_bucket_bytes_cap. Does not compile with a
// LibTorch whose Reducer has parameters that are not known here.
template <typename Reducer, typename... First>
std::shared_ptr<Reducer> make_reducer(First&&... first) {
  constexpr bool kSkipAllReduceOfUnused = false;
  constexpr bool kPythonReducer = false;
  using BytesOfBuckets =
      std::vector<std::int64_t>;  // since 2.11: one for each bucket, in the place of one for all
  if constexpr (std::is_constructible_v<Reducer, First..., bool, bool, BytesOfBuckets>) {
    return std::make_shared<Reducer>(
        std::forward<First>(first)..., kSkipAllReduceOfUnused, kPythonReducer, BytesOfBuckets{});
  } else if constexpr (std::is_constructible_v<Reducer, First..., bool, bool>) {
    return std::make_shared<Reducer>(
        std::forward<First>(first)..., kSkipAllReduceOfUnused, kPythonReducer);
  } else {
    return std::make_shared<Reducer>(std::forward<First>(first)...);
  }
}

}  // namespace nsa
