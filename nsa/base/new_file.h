// A file that is being made. Its bytes go into a draft beside it, under a drawn name that nobody can have planted; keep() gives the
// draft its name. Without that it goes with its owner, so that a file is there whole or not at all.
// Every file that the program makes whole is made by this one. What exists under the name and is no regular file is never
// replaced: bytes go into a device, or into a pipe that somebody reads, as they come; all else is refused by name, a link too,
// since it leads to what somebody else chose.
#pragma once

#include <string>
#include <string_view>
#include <sys/types.h>

namespace nsa {

class NewFile {
 public:
  // `mode`: as for open(); what a file that is replaced does not allow is not allowed. Throws: Error, NotRecorded.
  explicit NewFile(const std::string& path, mode_t mode = 0644);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // Throws: Error, NotRecorded; then nothing of the file stays.
  void write(std::string_view bytes);
  // The draft gets its name; `through`: to the disk, its name too. Nothing may be written afterwards. Throws: as write().
  void keep(bool through = true);

  // To be mapped or sized. A device has no size.
  [[nodiscard]] int descriptor() const { return fd_; }

 private:
  void open_draft(mode_t mode);
  void open_device();

  std::string path_;
  std::string draft_;  // "" of a device
  int fd_ = -1;
};

// Opens a file that is added to or locked, made where it is not there; `flags`: O_WRONLY or O_RDWR, with O_APPEND or not. A regular
// file, a device, or a pipe that somebody reads; all else is refused as above. Throws: Error, NotRecorded.
[[nodiscard]] int open_to_add(const std::string& path, int flags);

// Throws: Error, NotRecorded, naming `path`.
void write_all(int fd, std::string_view bytes, const std::string& path);

// A drawn name in the same folder as `path`.
[[nodiscard]] std::string drawn_name(const std::string& path);

}  // namespace nsa
