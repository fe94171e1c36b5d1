#include "stage/inherited.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace gantry {
namespace {

constexpr int kFirstFreeNumber = 3;  // 0 to 2 are the standard streams

// /dev/null holds the place of a descriptor that was taken.
bool is_place_holder(int descriptor) {
  struct stat facts{};
  return ::fstat(descriptor, &facts) == 0 && S_ISCHR(facts.st_mode) &&
         facts.st_rdev == makedev(1, 3);
}

}  // namespace

Result<Fd> take_inherited(int number, std::string_view what) {
  if (is_place_holder(number))
    return fail(Code::already_exists, fmt::format("{}: this process has opened it before", what),
                "open each end of a stage once");
  Fd taken(::fcntl(number, F_DUPFD_CLOEXEC, kFirstFreeNumber));
  if (!taken)
    return fail(Code::not_found,
                fmt::format("{}: descriptor {} is not open in this process", what, number),
                "a program between this one and `gantry run` closed it");
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null || ::dup3(null.get(), number, O_CLOEXEC) < 0) return fail_errno(what);
  return taken;
}

}  // namespace gantry
