// A dump of PyTorch's flight recorder as torch 2.11 wrote it, and files that are none.
#include "harness/foreign/flight_dump.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/foreign/pickled.h"
#include "nsa/base/error.h"
#include "tests/fakes/mutate.h"

namespace {

using harness::FlightDump;
using harness::read_flight_dump;
using harness::read_pickled;
using ::testing::ElementsAre;

// Two collectives of one rank of Gloo: an all-reduce of 2 x 3 numbers, a barrier.
const char kBytes[] =
    "\200\002}(X\007\000\000\000versionq\000X\004\000\000\0002.10q\001X\011\000\000\000pg_confi"
    "gq\002}(X\000\000\000\000q\003}(X\004\000\000\000nameq\004h\003X\004\000\000\000descq\005h"
    "\003X\005\000\000\000ranksq\006X\003\000\000\000[0]q\007uuX\020\000\000\000comm_lib_versio"
    "nq\010h\003X\011\000\000\000pg_statusq\011}(X\001\000\000\0000q\012}(X\030\000\000\000last"
    "_enqueued_collectiveq\013K\002X\027\000\000\000last_started_collectiveq\014J\377\377\377\377"
    "X\031\000\000\000last_completed_collectiveq\015K\002uuX\007\000\000\000entriesq\016](}(X\011"
    "\000\000\000record_idq\017K\000X\005\000\000\000pg_idq\020K\000X\015\000\000\000process_gr"
    "oupq\021h\012X\012\000\000\000default_pgq\022\206X\013\000\000\000thread_nameq\023X\006\000"
    "\000\000pythonq\024X\011\000\000\000thread_idq\025X\017\000\000\000140640350391168q\026X\021"
    "\000\000\000collective_seq_idq\027K\001X\012\000\000\000p2p_seq_idq\030K\000X\005\000\000\000"
    "op_idq\031K\001X\016\000\000\000profiling_nameq\032X\017\000\000\000gloo:all_reduceq\033X\017"
    "\000\000\000time_created_nsq\034\212\010\205[\360\303=L\353\030X\013\000\000\000input_size"
    "sq\035](](K\002K\003eeX\014\000\000\000input_dtypesq\036](X\005\000\000\000Floatq\037eX\014"
    "\000\000\000output_sizesq ](](K\002K\003eeX\015\000\000\000output_dtypesq!](h\037eX\005\000"
    "\000\000stateq\042X\011\000\000\000scheduledq#X\032\000\000\000time_discovered_started_nsq"
    "$NX\034\000\000\000time_discovered_completed_nsq%NX\007\000\000\000retiredq&\210X\012\000\000"
    "\000timeout_msq'J@w\033\000X\006\000\000\000is_p2pq(\211u}(h\017K\001h\020K\000h\021h\012h"
    "\022\206h\023h\024h\025h\026h\027K\002h\030K\000h\031K\002h\032X\014\000\000\000gloo:barri"
    "erq)h\034\212\010K\005\365\303=L\353\030h\035](eh\036](eh ](eh!](eh\042h#h$Nh%Nh&\210h'J@w"
    "\033\000h(\211ueuq*.";
const std::string kDump(kBytes, sizeof kBytes - 1);

template <std::size_t kSize>
std::string bytes(const char (&text)[kSize]) {
  return std::string(text, kSize - 1);
}

TEST(FlightDump, WhatTorchWroteIsRead) {
  const FlightDump dump = read_flight_dump(kDump);
  EXPECT_THAT(dump.records,
              ElementsAre(harness::FlightRecord{"default", 1, "all_reduce", "Float", 6, true},
                          harness::FlightRecord{"default", 2, "barrier", "", 0, true}));
}

TEST(FlightDump, JsonIsReadTooAndOfNcclTheStateCounts) {
  const FlightDump dump =
      read_flight_dump(R"({"version": "2.4", "pg_config": {"3": {"ranks": "[0, 2]"}}, "entries": [
      {"process_group": ["3", "mesh"], "collective_seq_id": 4, "profiling_name": "nccl:_all_gather_base", "retired": true,
       "input_sizes": [[5], []], "input_dtypes": ["Half"], "state": "started"},
      {"process_group": ["0", "default_pg"], "profiling_name": "nccl:send 0->1", "is_p2p": true}]})");
  EXPECT_THAT(
      dump.records,
      ElementsAre(harness::FlightRecord{"3 [0, 2]", 4, "_all_gather_base", "Half", 6, false}));
}

TEST(FlightDump, AFileThatIsNotWrittenToItsEndIsRefused) {
  for (std::size_t size = 0; size < kDump.size(); ++size) {
    EXPECT_THROW((void)read_flight_dump(kDump.substr(0, size)), nsa::Error) << size;
  }
}

std::string refused(const std::string& text) {
  try {
    (void)read_flight_dump(text);
  } catch (const nsa::Error& error) {
    return error.what();
  }
  return "";
}

TEST(FlightDump, AVersionThatIsNotKnownIsRefused) {
  const std::string entry =
      R"("entries": [{"collective_seq_id": 1, "profiling_name": "nccl:all_reduce"}]})";
  EXPECT_EQ(refused(R"({"version": "2.10", )" + entry), "");
  EXPECT_EQ(refused(R"({"version": "3.0", )" + entry), "version: found 3.0, wanted 2.x");
  EXPECT_EQ(refused(R"({"version": "1.5", )" + entry), "version: found 1.5, wanted 2.x");
  EXPECT_EQ(refused("{" + entry), "version: found none, wanted 2.x");
}

TEST(FlightDump, ACollectiveWithoutItsNumberIsNotTheFirstOne) {
  const std::string begin = R"({"version": "2.10", "entries": [{"profiling_name": "nccl:barrier")";
  const std::string words = "collective_seq_id of nccl:barrier: found none, wanted a number";
  EXPECT_EQ(refused(begin + "}]}"), words);
  EXPECT_EQ(refused(begin + R"(, "collective_seq_id": "7"}]})"), words);
  EXPECT_EQ(refused(begin + R"(, "collective_seq_id": 7}]})"), "");
  EXPECT_EQ(refused(begin + R"(, "is_p2p": true}]})"), "") << "it is no collective";
  EXPECT_NE(refused(R"({"version": "2.10", "entries": [7]})"), "");
  EXPECT_NE(refused(R"({"version": "2.10", "entries": {}})"), "");
}

TEST(FlightDump, WhateverIsInTheFileItIsReadOrRefused) {
  for (unsigned seed = 0; seed < 3'000; ++seed) {
    try {
      (void)read_flight_dump(fakes::Mutator(seed, kDump.size())(kDump));
    } catch (const nsa::Error&) {
    }
  }
}

TEST(Pickled, AProgramIsRefused) {
  // What os.system("true") is as a pickle.
  EXPECT_THROW((void)read_pickled(bytes("\x80\x02"
                                        "cposix\nsystem\nq\0X\4\0\0\0trueq\1\x85q\2Rq\3.")),
               nsa::Error);
}

TEST(Pickled, NumbersKeepTheirSignAndAListThatHoldsItselfIsRefused) {
  EXPECT_EQ(read_pickled(bytes("\x80\x02\x8a\x02\x01\xff.")), -255);
  EXPECT_EQ(read_pickled(bytes("J\xff\xff\xff\xff.")), -1);
  EXPECT_EQ(read_pickled(bytes("G\x3f\xf8\0\0\0\0\0\0.")), 1.5);
  EXPECT_EQ(read_pickled("(K\1K\2t."), nlohmann::json::parse("[1, 2]"));
  EXPECT_THROW((void)read_pickled(bytes("]q\0h\0a.")), nsa::Error);
}

}  // namespace
