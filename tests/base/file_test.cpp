#include "nsa/base/file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nsa/base/new_file.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temp_folder.h"

namespace {

using testing::HasSubstr;

std::string refusal(const std::string& path, std::int64_t max_bytes) {
  return error_of([&] { (void)nsa::read_file(path, max_bytes); });
}

TEST(File, IsReadWholeUpToTheLimit) {
  const fakes::TempFolder folder;
  const std::string content("a\0b\n", 4);
  const std::string path = folder.write("f", content);
  EXPECT_EQ(nsa::read_file(path, 4), content);
  EXPECT_EQ(nsa::file_size(path), 4);
  EXPECT_EQ(refusal(path, 3), path + ": found 4 bytes, wanted at most 3");
  EXPECT_EQ(nsa::read_file(folder.write("empty", ""), 0), "");
}

TEST(File, SizeIsCheckedBeforeAnythingIsAllocated) {
  const fakes::TempFolder folder;
  const std::string path = folder.write("f", "");
  std::filesystem::resize_file(path, std::uintmax_t{1} << 42U);  // sparse
  EXPECT_THAT(refusal(path, 10), HasSubstr("found 4398046511104 bytes, wanted at most 10"));
}

TEST(File, OneWithoutASizeHasALimitToo) {
  EXPECT_THAT(nsa::read_file("/proc/self/status", 1 << 20), HasSubstr("Name:"));
  EXPECT_THAT(refusal("/proc/self/status", 10), HasSubstr("wanted at most 10"));
}

TEST(File, APipeIsRefusedAndNeverWaitedFor) {
  const fakes::TempFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal(folder / "pipe", 10),
            (folder / "pipe") + ": found a pipe, device or socket, wanted a regular file");
  EXPECT_THAT(refusal("/dev/zero", 10), HasSubstr("wanted a regular file"));
  EXPECT_THAT(refusal(folder.path(), 10), HasSubstr("found a folder"));
  EXPECT_THAT(refusal(folder / "none", 10), HasSubstr("none: No such file"));
}

// ---- what exists and is no regular file -------------------------------------------------------------------------------

std::string kept_in(const std::string& path) {
  return error_of([&] { nsa::write_durably(path, "new"); });
}

TEST(NewFile, NeverFollowsALinkAndNeverTakesItsPlace) {
  const fakes::TempFolder folder;
  const std::string victim = folder.write("victim", "old");
  const std::string path = folder / "f";
  std::filesystem::create_symlink(victim, path);
  EXPECT_EQ(kept_in(path), path + ": found a symbolic link, wanted a file to write");
  EXPECT_EQ(error_of([&] { nsa::add_to_file(path, "new"); }),
            path + ": found a symbolic link, wanted a file to write");
  EXPECT_EQ(nsa::read_file(victim, 10), "old");
  EXPECT_TRUE(std::filesystem::is_symlink(path));
}

// Under the names that older versions wrote their drafts to.
TEST(NewFile, ALinkThatWasPlantedForTheDraftIsOfNoUse) {
  const fakes::TempFolder folder;
  const std::string victim = folder.write("victim", "old");
  std::filesystem::create_symlink(victim, folder / "f.part");
  EXPECT_EQ(kept_in(folder / "f"), "no error");
  EXPECT_EQ(nsa::read_file(victim, 10), "old");
  EXPECT_EQ(nsa::read_file(folder / "f", 10), "new");
  EXPECT_NE(nsa::drawn_name(folder / "f"), nsa::drawn_name(folder / "f"));
}

TEST(NewFile, ADeviceIsWrittenInto) {
  EXPECT_EQ(kept_in("/dev/null"), "no error");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_THROW(nsa::write_durably("/dev/full", "new"), nsa::NotRecorded);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST(NewFile, APipeIsWrittenIntoWhereSomebodyReads) {
  const fakes::TempFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(kept_in(path), HasSubstr("a pipe that nobody reads, wanted a file to write"));
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_EQ(kept_in(path), "no error");
  std::array<char, 8> got{};
  EXPECT_EQ(::read(reader, got.data(), got.size()), 3);
  EXPECT_STREQ(got.data(), "new");
  close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(path));
}

TEST(NewFile, AFolderAndASocketAreRefused) {
  const fakes::TempFolder folder;
  EXPECT_THAT(kept_in(folder.path()), HasSubstr("found a folder, wanted a file to write"));
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder / "s";
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  std::copy(path.begin(), path.end(), std::begin(address.sun_path));
  // NOLINTNEXTLINE: as the socket interface wants it
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_THAT(kept_in(path), HasSubstr("found a socket, wanted a file to write"));
  close(listener);
}

TEST(NewFile, WhatMayNotBeReadByOthersStaysSo) {
  const fakes::TempFolder folder;
  const std::string path = folder.write("f", "old");
  chmod(path.c_str(), 0600);
  EXPECT_EQ(kept_in(path), "no error");
  EXPECT_EQ(static_cast<int>(std::filesystem::status(path).permissions()), 0600);
}

TEST(NewFile, NothingStaysOfOneThatWasNotKept) {
  const fakes::TempFolder folder;
  { nsa::NewFile(folder / "f").write("new"); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(File, WhatADiskOrAReaderDoesNotTakeIsNotRecorded) {
  for (const int code : {ENOSPC, EDQUOT, EFBIG, EIO, EROFS, ENOLCK, EPIPE}) {
    EXPECT_THROW(nsa::throw_write_error("write", "f", code), nsa::NotRecorded) << code;
  }
  EXPECT_THAT(error_of([] { nsa::throw_write_error("write", "f", EACCES); }),
              HasSubstr("cannot write f: Permission denied"));
}

// Where no file may grow over `bytes`, as on a disk that becomes full. For one test, in one thread.
class LittleRoom {
 public:
  explicit LittleRoom(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit less{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &less);
  }
  ~LittleRoom() {
    setrlimit(RLIMIT_FSIZE, &before_);
    (void)std::signal(SIGXFSZ, handler_);
  }
  LittleRoom(const LittleRoom&) = delete;
  LittleRoom& operator=(const LittleRoom&) = delete;

 private:
  rlimit before_{};
  sighandler_t handler_;
};

TEST(File, WhatIsWrittenDurablyIsWholeOrTheOldOne) {
  const fakes::TempFolder folder;
  const std::string path = folder.write("run.json", "old");
  {
    const LittleRoom room(1000);
    EXPECT_THAT(error_of([&] { nsa::write_durably(path, std::string(5000, 'x')); }),
                HasSubstr("cannot write"));
  }
  EXPECT_EQ(nsa::read_file(path, 10), "old");
  nsa::write_durably(path, std::string(5000, 'x'));
  EXPECT_EQ(nsa::read_file(path, 5000), std::string(5000, 'x'));
  EXPECT_ANY_THROW(nsa::write_durably(folder.path(), "over a folder"));
  EXPECT_ANY_THROW(nsa::write_durably(folder / "none/run.json", "x"));
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    files += entry.exists() ? 1 : 0;
  }
  EXPECT_EQ(files, 1U) << "no draft is left";
}

}  // namespace
