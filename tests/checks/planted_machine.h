// Machines that are not sound: another build, a transport that adds up wrong, somebody else on the card.
#pragma once

#include "oracles/training/exact_sums.h"
#include "tests/checks/planted_case.h"

namespace fixtures {

inline constexpr const char* kSources = "00112233445566778899aabbccddeeff";

inline void add_builds(Healthy& h) {
  put(h.evidence.facts, kController, harness::Fact{harness::kBuiltFromFact, kSources});
  std::vector<int> processes = harness::checks::all_ranks(h.evidence);
  processes.push_back(kTwin);
  for (const int process : processes) {
    harness::Hello hello;
    hello.source_hash = kSources;
    put(h.evidence.hellos, process, hello);
  }
}

using Held = std::vector<float>;

inline Held known_sum(const Healthy& h, const harness::Bucket& plan) {
  const oracles::ExactSum sum{
      h.evidence.the_case.scenario.seed, plan.step, plan.bucket, h.evidence.ranks()};
  const std::vector<int> sums = oracles::sums(sum, plan.elements);
  return {sums.begin(), sums.end()};
}

// A rank's row of what it holds. It names what it finds wrong.
inline harness::ExactSum sum_row(const harness::Bucket& plan, const Held& held, const Held& right) {
  harness::ExactSum row{plan.step, plan.bucket, plan.elements, "Float", "", 0};
  row.hash = nsa::hash_hex(std::as_bytes(std::span(held)));
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i] == right[i]) continue;
    ++row.wrong;
    row.places.push_back(static_cast<std::int64_t>(i));
    row.values.push_back(std::isnan(held[i]) ? "NaN" : std::to_string(static_cast<int>(held[i])));
  }
  return row;
}

// What each rank holds after each bucket is what `change` makes of the sum.
template <typename Change>
void hold_sums(Healthy& h, Change change) {
  h.evidence.exact_sums.clear();
  for (const auto& plan : h.evidence.buckets) {
    const Held right = known_sum(h, plan.row);
    Held held = right;
    change(plan.process, plan.row, held);
    put(h.evidence.exact_sums, plan.process, sum_row(plan.row, held, right));
  }
}

inline void sound_machine(Healthy& h) {
  add_builds(h);
  hold_sums(h, [](int, const harness::Bucket&, Held&) {});
}

// Its last elements are what the rank gave.
inline void keeps_own(const Healthy& h, int rank, const harness::Bucket& plan, Held& held) {
  const oracles::ExactSum sum{
      h.evidence.the_case.scenario.seed, plan.step, plan.bucket, h.evidence.ranks()};
  const std::vector<int> own = oracles::addends(sum, rank, plan.elements);
  for (std::size_t i = held.size() - 8; i < held.size(); ++i) held[i] = static_cast<float>(own[i]);
}

inline void add_known_sums(std::vector<Planted>& list) {
  const PlantedAdder add{list, "machine_sound", 3, 2};
  const char* const code = "INFRA.COMM_CORRUPT";
  const auto held = [](auto change) {
    return [change](Healthy& h) {
      sound_machine(h);
      hold_sums(
          h, [&](int rank, const harness::Bucket& plan, Held& sum) { change(h, rank, plan, sum); });
    };
  };
  add("sound", Verdict::pass, "", "{}", sound_machine);
  add("sums in half precision", Verdict::pass, "", "{}", [](Healthy& h) {
    sound_machine(h);
    // 0x5A90 is 210.0, and so on: written from the definition of the format.
    for (auto& row : h.evidence.exact_sums) {
      row.row.dtype = "Half";
      std::vector<std::uint16_t> bits;
      for (const float value :
           known_sum(h, {row.row.step, row.row.bucket, row.row.elements, "", {}})) {
        int exponent = 0;
        const double fraction =
            std::frexp(std::abs(value), &exponent);  // value = fraction * 2^exponent
        const int biased = value == 0.0F ? 0 : exponent + 14;
        const int digits = value == 0.0F ? 0 : static_cast<int>(fraction * 2048.0) - 1024;
        bits.push_back(
            static_cast<std::uint16_t>((value < 0 ? 0x8000 : 0) + (biased << 10) + digits));
      }
      row.row.hash = nsa::hash_hex(std::as_bytes(std::span(bits)));
    }
  });
  add("one element, everywhere",
      Verdict::fail,
      code,
      R"({"step":2,"ranks":[0,1,2],"op":"allreduce"})",
      held([](const Healthy&, int, const harness::Bucket& plan, Held& sum) {
        if (plan.step == 2) sum[17] += 3.0F;
      }));
  add("the last elements of one rank",
      Verdict::fail,
      code,
      R"({"step":1,"ranks":[1],"op":"allreduce","detail":{"law":"own_addends"}})",
      held([](const Healthy& h, int rank, const harness::Bucket& plan, Held& sum) {
        if (rank == 1) keeps_own(h, 1, plan, sum);
      }));
  add("an addend of one rank is lost in one bucket",
      Verdict::fail,
      code,
      R"({"step":1,"ranks":[0,1,2],"bucket":1,"detail":{"law":"without_addends_of_a_rank"}})",
      held([](const Healthy& h, int, const harness::Bucket& plan, Held& sum) {
        if (plan.bucket != 1) return;
        const oracles::ExactSum known{h.evidence.the_case.scenario.seed, plan.step, 1, 3};
        const std::vector<int> lost = oracles::addends(known, 2, plan.elements);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] -= static_cast<float>(lost[i]);
      }));
  add("no number at all",
      Verdict::fail,
      code,
      R"({"step":1,"ranks":[2]})",
      held([](const Healthy&, int rank, const harness::Bucket&, Held& sum) {
        if (rank == 2) sum[0] = NAN;
      }));
  add("other bits though the rank finds nothing wrong",
      Verdict::fail,
      code,
      R"({"step":1,"ranks":[0]})",
      [](Healthy& h) {
        sound_machine(h);
        for (auto& row : h.evidence.exact_sums) {
          if (row.process == 0) row.row.hash = nsa::hash_hex(std::string_view("other"));
        }
      });
  add("places that are none are not read", Verdict::fail, code, R"({"ranks":[0]})", [](Healthy& h) {
    sound_machine(h);
    for (auto& row : h.evidence.exact_sums) {
      if (row.process != 0) continue;
      row.row.hash = "other";
      row.row.places = {-1, std::int64_t{1} << 60, 3};
      row.row.values = {"1", "2", "3"};
    }
  });
  add("no sums of a rank", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    sound_machine(h);
    remove_if(h.evidence.exact_sums, [](const auto& row) { return row.process == 1; });
  });
  add("a sum of another size than the bucket", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    sound_machine(h);
    h.evidence.exact_sums.front().row.elements = std::int64_t{1} << 60;
  });
  add("no plan of the buckets", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    sound_machine(h);
    h.evidence.buckets.clear();
  });
}

inline void add_other_builds(std::vector<Planted>& list) {
  const PlantedAdder add{list, "machine_sound", 2, 1};
  const auto other = [](int process) {
    return [process](Healthy& h) {
      sound_machine(h);
      for (auto& row : h.evidence.hellos) {
        if (row.process == process) row.row.source_hash = "ffeeddccbbaa99887766554433221100";
      }
    };
  };
  add("a rank of other sources", Verdict::fail, "INFRA.STALE_BUILD", R"({"ranks":[1]})", other(1));
  add("a twin of other sources", Verdict::fail, "INFRA.STALE_BUILD", "{}", other(kTwin));
  add("a rank that never said", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    sound_machine(h);
    remove_if(h.evidence.hellos, [](const auto& row) { return row.process == 0; });
  });
  add("sources that nobody knows", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    sound_machine(h);
    h.evidence.facts.clear();
  });
}

constexpr std::int64_t kMibOfCard = 1 << 20;

// Timed on a card that belongs to nobody else. `change` sees every look.
template <typename Change>
void timed_on_card(Healthy& h, Change change) {
  add_builds(h);
  h.evidence.the_case.scenario.kind = "throughput";
  h.evidence.the_case.scenario.parallel.device = nsa::Device::cuda;
  const auto look =
      [&](std::int64_t step, bool idle, int busy, std::int64_t used, std::int64_t own) {
        harness::CardLook row{
            step, idle, busy, used * kMibOfCard, own * kMibOfCard, step == 0 ? -1 : 1};
        change(row);
        put(h.evidence.card_looks, 0, row);
      };
  look(0, true, 0, 3, 0);
  look(1, false, 60, 900, 300);
  look(3, false, 99, 2500, 1900);
  look(6, false, 99, 2640, 2000);
  look(8, true, 0, 2640, 2000);
}

inline void add_card_looks(std::vector<Planted>& list) {
  const PlantedAdder add{list, "machine_sound", 1, 1};
  const char* const code = "INFRA.GPU_BUSY";
  const auto looks = [](auto change) { return [change](Healthy& h) { timed_on_card(h, change); }; };
  add("a card of its own", Verdict::pass, "", "{}", looks([](harness::CardLook&) {}));
  add("a driver that tells the memory alone", Verdict::pass, "", "{}", looks([](auto& row) {
        row.busy_percent = row.processes = -1;
      }));
  add("kernels while the rank rests", Verdict::fail, code, R"({"ranks":[0]})", looks([](auto& row) {
        if (row.idle && row.step == 8) row.busy_percent = 100;
      }));
  add("memory that was in use before", Verdict::fail, code, "{}", looks([](auto& row) {
        row.used_bytes += 700 * kMibOfCard;
      }));
  add("memory that came between two steps", Verdict::fail, code, "{}", looks([](auto& row) {
        if (row.step > 3) row.used_bytes += 700 * kMibOfCard;
      }));
  add("a second process", Verdict::fail, code, "{}", looks([](auto& row) {
        if (row.step > 0) row.processes = 2;
      }));
  add("a process before", Verdict::fail, code, "{}", looks([](auto& row) {
        if (row.step == 0) row.processes = 1;
      }));
  add("a driver that tells nothing", Verdict::inconclusive, "", "{}", looks([](auto& row) {
        row.busy_percent = row.processes = -1;
        row.used_bytes = -1;
      }));
  add("no look at the end", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    timed_on_card(h, [](harness::CardLook&) {});
    remove_if(h.evidence.card_looks, [](const auto& row) { return row.row.step == 8; });
  });
}

// The last step's backward, done again in five ways. `change` sees every row.
template <typename Change>
void reduce_again(Healthy& h, Change change) {
  for (const int rank : harness::checks::all_ranks(h.evidence)) {
    for (const char* call : harness::kReducedCalls) {
      for (std::size_t i = 0; i < h.params.size(); ++i) {
        harness::ReducedAgain row{2, call, h.params[i], h.bucket_of(i), "sum of " + h.params[i]};
        change(rank, row);
        put(h.evidence.reduced_again, rank, row);
      }
    }
  }
}

inline void add_reducer_races(std::vector<Planted>& list) {
  const PlantedAdder add{list, "repeats_equal", 2, 2};
  const auto again = [](auto change) { return [change](Healthy& h) { reduce_again(h, change); }; };
  const std::string raced = "blocks.1.attn.W_Q.weight";
  add("reduced gradients do not race", Verdict::pass, "", "{}", again([](int, auto&) {}));
  add("reduced before the stream that makes it has ended",
      Verdict::fail,
      "RACE.STREAM",
      R"({"step":2,"ranks":[0,1],"op":"grad_sync","layers":[1],"param":"W_Q","bucket":1,)"
      R"("detail":{"late":["the other streams were late"]}})",
      again([raced](int, harness::ReducedAgain& row) {
        if (row.call == "others_late" && row.param == raced) row.hash = "zeros";
      }));
  add("one that differs in series tells nothing",
      Verdict::pass,
      "",
      "{}",
      again([raced](int, auto& row) {
        if (row.param == raced) row.hash += row.call;
      }));
  add("nothing is the same in series", Verdict::inconclusive, "", "{}", again([](int, auto& row) {
        row.hash += row.call;
      }));
  add("a backward of one rank is not there", Verdict::inconclusive, "", "{}", [](Healthy& h) {
    reduce_again(h, [](int, auto&) {});
    remove_if(h.evidence.reduced_again,
              [](const auto& row) { return row.process == 1 && row.row.call == "late"; });
  });
}

inline void add_machines(std::vector<Planted>& list) {
  add_reducer_races(list);
  add_known_sums(list);
  add_other_builds(list);
  add_card_looks(list);
}

}  // namespace fixtures
