// Dumps of the flight recorders of older PyTorch with NCCL: torch 2.4 writes version 2.1, torch 2.7 version 2.4. Their pickles name
// the same fields as those of 2.11, less some that are not looked at.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/foreign/flight_dump.h"
#include "nsa/base/error.h"
#include "tests/fakes/mutate.h"

namespace {

using harness::FlightRecord;
using ::testing::ElementsAre;

// Written by the recorder of torch 2.4.1 itself, which was told of four operations without a card: an all-reduce of 2 x 3 numbers
// that is done, a gather in a group of two ranks, a send, and an all-reduce of one number without dimensions.
const char kTorch24[] =
    "\200\002}(X\007\000\000\000versionq\000X\003\000\000\0002.1q\001X\011\000\000\000pg_configq"
    "\002}(X\001\000\000\0000q\003}(X\004\000\000\000nameq\004h\003X\004\000\000\000descq\005X"
    "\012\000\000\000default_pgq\006X\005\000\000\000ranksq\007X\011\000\000\000[0, 1, 2]q\010uX"
    "\001\000\000\0003q\011}(h\004h\011h\005X\007\000\000\000mesh_dpq\012h\007X\006\000\000\000["
    "0, 2]q\013uuX\007\000\000\000entriesq\014](}(X\006\000\000\000framesq\015](eX\011\000\000"
    "\000record_idq\016K\000X\005\000\000\000pg_idq\017K\000X\015\000\000\000process_groupq\020h"
    "\003h\006\206X\021\000\000\000collective_seq_idq\021K\001X\012\000\000\000p2p_seq_idq\022K"
    "\000X\005\000\000\000op_idq\023K\001X\016\000\000\000profiling_nameq\024X\017\000\000\000nc"
    "cl:all_reduceq\025X\017\000\000\000time_created_nsq\026\212\010\321\326\266\034-\204\353"
    "\030X\013\000\000\000duration_msq\027G\077\370\000\000\000\000\000\000X\013\000\000\000inpu"
    "t_sizesq\030](](K\002K\003eeX\014\000\000\000input_dtypesq\031](X\005\000\000\000Floatq\032"
    "eX\014\000\000\000output_sizesq\033](](K\002K\003eeX\015\000\000\000output_dtypesq\034](h"
    "\032eX\005\000\000\000stateq\035X\011\000\000\000completedq\036X\032\000\000\000time_discov"
    "ered_started_nsq\037K\005X\034\000\000\000time_discovered_completed_nsq K\007X\007\000\000"
    "\000retiredq!\210X\006\000\000\000is_p2pq\"\211u}(h\015](eh\016K\001h\017K\001h\020h\011h"
    "\012\206h\021K\001h\022K\000h\023K\001h\024X\025\000\000\000nccl:_all_gather_baseq#h\026"
    "\212\010\225\015\267\034-\204\353\030h\030](](K\005eeh\031](X\004\000\000\000Halfq$eh\033]("
    "](K\012eeh\034](h$eh\035X\011\000\000\000scheduledq%h\037Nh Nh!\211h\"\211u}(h\015](eh\016K"
    "\002h\017K\000h\020h\003h\006\206h\021K\001h\022K\001h\023K\002h\024X\016\000\000\000nccl:s"
    "end 0->1q&h\026\212\010\322\306\267\034-\204\353\030h\030](](K\002K\003eeh\031](h\032eh\033"
    "](](K\002K\003eeh\034](h\032eh\035h%h\037Nh Nh!\211h\"\210u}(h\015](eh\016K\003h\017K\000h"
    "\020h\003h\006\206h\021K\002h\022K\001h\023K\003h\024h\025h\026\212\010d\326\267\034-\204"
    "\353\030h\030](](eeh\031](h\032eh\033](](eeh\034](h\032eh\035h%h\037Nh Nh!\211h\"\211ueuq'.";

// The same as torch 2.7.1 names it, written by that torch's pickler: its recorder cannot be told of operations without a card.
const char kTorch27[] =
    "\200\002}(X\007\000\000\000versionq\000X\003\000\000\0002.4q\001X\011\000\000\000pg_configq"
    "\002}(X\001\000\000\0000q\003}(X\004\000\000\000nameq\004h\003X\004\000\000\000descq\005X"
    "\012\000\000\000default_pgq\006X\005\000\000\000ranksq\007X\011\000\000\000[0, 1, 2]q\010uX"
    "\001\000\000\0003q\011}(h\004h\011h\005X\007\000\000\000mesh_dpq\012h\007X\006\000\000\000["
    "0, 2]q\013uuq\014X\011\000\000\000pg_statusq\015}(h\003}(X\030\000\000\000last_enqueued_col"
    "lectiveq\016K\002X\027\000\000\000last_started_collectiveq\017J\377\377\377\377X\031\000"
    "\000\000last_completed_collectiveq\020K\001uX\001\000\000\0001q\021}(h\016K\002h\017J\377"
    "\377\377\377h\020K\001uuq\022X\007\000\000\000entriesq\023](}(X\006\000\000\000framesq\024]"
    "(}(h\004X\004\000\000\000mainq\025X\010\000\000\000filenameq\026X\010\000\000\000train.pyq"
    "\027X\004\000\000\000lineq\030K\007ueX\011\000\000\000record_idq\031K\000X\005\000\000\000p"
    "g_idq\032K\000X\015\000\000\000process_groupq\033h\003h\006\206X\021\000\000\000collective_"
    "seq_idq\034K\001X\012\000\000\000p2p_seq_idq\035K\000X\005\000\000\000op_idq\036K\001X\016"
    "\000\000\000profiling_nameq\037X\017\000\000\000nccl:all_reduceq X\017\000\000\000time_crea"
    "ted_nsq!\212\010\321\326\266\034-\204\353\030X\013\000\000\000duration_msq\"G\077\370\000"
    "\000\000\000\000\000X\013\000\000\000input_sizesq#](](K\002K\003eeX\014\000\000\000input_dt"
    "ypesq$](X\005\000\000\000Floatq%eX\014\000\000\000output_sizesq&](](K\002K\003eeX\015\000"
    "\000\000output_dtypesq'](h%eX\005\000\000\000stateq(X\011\000\000\000completedq)X\032\000"
    "\000\000time_discovered_started_nsq*K\005X\034\000\000\000time_discovered_completed_nsq+K"
    "\007X\007\000\000\000retiredq,\210X\012\000\000\000timeout_msq-J\300'\011\000X\006\000\000"
    "\000is_p2pq.\211u}(h\024](}(h\004h\025h\026h\027h\030K\007ueh\031K\001h\032K\001h\033h\011h"
    "\012\206h\034K\001h\035K\000h\036K\001h\037X\025\000\000\000nccl:_all_gather_baseq/h!\212"
    "\010\321\326\266\034-\204\353\030h#](](K\005eeh$](X\004\000\000\000Halfq0eh&](](K\012eeh']("
    "h0eh(X\011\000\000\000scheduledq1h*Nh+Nh,\211h-J\300'\011\000h.\211u}(h\024](}(h\004h\025h"
    "\026h\027h\030K\007ueh\031K\002h\032K\000h\033h\003h\006\206h\034K\001h\035K\001h\036K\002h"
    "\037X\016\000\000\000nccl:send 0->1q2h!\212\010\321\326\266\034-\204\353\030h#](](K\002K"
    "\003eeh$](h%eh&](](K\002K\003eeh'](h%eh(h1h*Nh+Nh,\211h-J\300'\011\000h.\210u}(h\024](}(h"
    "\004h\025h\026h\027h\030K\007ueh\031K\003h\032K\000h\033h\003h\006\206h\034K\002h\035K\001h"
    "\036K\003h\037h h!\212\010\321\326\266\034-\204\353\030h#](](eeh$](h%eh&](](eeh'](h%eh(h1h*"
    "Nh+Nh,\211h-J\300'\011\000h.\211ueq3uq4.";

class OlderDump : public ::testing::TestWithParam<std::string> {};

TEST_P(OlderDump, IsReadLikeTheNewest) {
  EXPECT_THAT(harness::read_flight_dump(GetParam()).records,
              ElementsAre(FlightRecord{"default", 1, "all_reduce", "Float", 6, true},
                          FlightRecord{"3 [0, 2]", 1, "_all_gather_base", "Half", 5, false},
                          FlightRecord{"default", 2, "all_reduce", "Float", 1, false}));
}

TEST_P(OlderDump, IsRefusedWhereItsEndIsMissing) {
  for (std::size_t size = 0; size < GetParam().size(); ++size) {
    EXPECT_THROW((void)harness::read_flight_dump(GetParam().substr(0, size)), nsa::Error) << size;
  }
}

TEST_P(OlderDump, IsReadOrRefusedWhateverIsInIt) {
  for (unsigned seed = 0; seed < 2'000; ++seed) {
    try {
      (void)harness::read_flight_dump(fakes::Mutator(seed, GetParam().size())(GetParam()));
    } catch (const nsa::Error&) {
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Torch,
                         OlderDump,
                         ::testing::Values(std::string(kTorch24, sizeof kTorch24 - 1),
                                           std::string(kTorch27, sizeof kTorch27 - 1)),
                         [](const auto& version) { return version.index == 0 ? "2_4" : "2_7"; });

// As torch writes it before anything was issued.
TEST(OlderDumps, ARecorderThatHoldsNothingIsRead) {
  EXPECT_TRUE(harness::read_flight_dump(R"({"version": "2.1", "pg_config": {}, "entries": []})")
                  .records.empty());
  EXPECT_TRUE(harness::read_flight_dump(R"({"version": "2.4", "pg_config": {}, "pg_status": {}})")
                  .records.empty());
}

}  // namespace
