// Of the program that has the C library inside. glibc starts threads and processes with clone3, and with clone where
// the system has no clone3. The seccomp filters of older container runtimes (Docker before 20.10.10) answer a call
// that they do not know with EPERM, not with ENOSYS, and glibc takes that for a failure. This stands in the place of
// its wrapper, so that it always uses clone.
#include <cerrno>
#include <cstddef>

// NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): glibc's own name
extern "C" int __clone3(void* /*arguments*/,
                        std::size_t /*size*/,
                        int (* /*function*/)(void*),
                        void* /*argument*/) {
  errno = ENOSYS;
  return -1;
}
