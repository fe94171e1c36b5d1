#include "list.hpp"

#include <stdlib.h>

#include "external.hpp"
#include "mpirun.hpp"
#include "roudi.hpp"

namespace gantry::bench {
namespace {

constexpr unsigned kMostInFlight = 4;
constexpr unsigned kMostReaders = 4;

using Subjects = Result<std::unique_ptr<Subject>>;

/// What makes its subject, of the variant and the program that the peer's row names.
using Make = Subjects (*)(const std::string& program, const std::string& variant, const Case& what,
                          const Wrapper& wrapper);

/// A folder of its own for a subject's sockets and names.
Result<Case> with_folder(Case what) {
  what.directory += "/gantry-bench-XXXXXX";
  if (::mkdtemp(what.directory.data()) == nullptr) return Unexpected(system_error(what.directory));
  return what;
}

Subjects make_plain(const std::string& program, const std::string& variant, const Case& what,
                    const Wrapper& wrapper) {
  const auto own = with_folder(what);
  if (!own) return Unexpected(own.error());
  auto made = External::make(program, variant, *own);
  if (!made) return Unexpected(made.error());
  (*made)->wrap(wrapper);
  return std::move(*made);
}

/// Its names in /dev/shm are removed even if both ends die with them.
Subjects make_boost(const std::string& program, const std::string& variant, const Case& what,
                    const Wrapper& wrapper) {
  const auto own = with_folder(what);
  if (!own) return Unexpected(own.error());
  auto made = External::make(program, variant, *own);
  if (!made) return Unexpected(made.error());
  const std::string name = "/dev/shm/" + own->directory.substr(own->directory.rfind('/') + 1);
  auto guard =
      ProgramGuard::start({.leftovers = {name + "-requests", name + "-replies", name + "-memory"}});
  if (!guard) return Unexpected(guard.error());
  (*made)->accompany(std::make_shared<ProgramGuard>(std::move(*guard)), Assignment::kNone);
  (*made)->wrap(wrapper);
  return std::move(*made);
}

Subjects make_iceoryx(const std::string& program, const std::string& variant, const Case& what,
                      const Wrapper& wrapper) {
  static std::weak_ptr<ProgramGuard> roudi;  // there can be one on a machine only
  auto daemon = find_or_start_roudi(what, roudi);
  if (!daemon) return Unexpected(daemon.error());
  auto made = External::make(program, variant, what);
  if (!made) return Unexpected(made.error());
  (*made)->accompany(*daemon, (*daemon)->program());
  (*made)->wrap(wrapper);
  return std::move(*made);
}

Subjects make_openmpi(const std::string&, const std::string& variant, const Case& what,
                      const Wrapper& wrapper) {
  return make_mpi(what, {.settings = shared_memory_settings(variant), .wrapper = wrapper});
}

struct Entry {
  const char* name;
  const char* program;
  const char* variant;
  const char* packages;  // what has to be installed for it to be built
  Make make;
  unsigned buffers = 3;
  unsigned most_in_flight = kMostInFlight;
  unsigned most_readers = kMostReaders;
  Bytes most_bytes = ~Bytes{0};
};

constexpr Bytes kMostOfTachyon = Bytes{1} << 20;  // its ring has 8 MiB
constexpr const char* kMpiPackages = "openmpi-bin libopenmpi-dev";
constexpr const char* kIceoryxPackages =
    "iceoryx libiceoryx-posh-dev libiceoryx-hoofs-dev libacl1-dev";

constexpr Entry kEntries[] = {
    {"openmpi", "gantry-peer-openmpi", "none", kMpiPackages, make_openmpi},
    {"openmpi/cma", "gantry-peer-openmpi", "cma", kMpiPackages, make_openmpi},
    {"ucx", "gantry-peer-ucx", "posix", "libucx-dev", make_plain},
    {"ucx/cma", "gantry-peer-ucx", "cma", "libucx-dev", make_plain},
    {"tachyon", "gantry-peer-tachyon", "", "libtachyon.so", make_plain, 3, 1, 1, kMostOfTachyon},
    {"iceoryx", "gantry-peer-iceoryx", "copy", kIceoryxPackages, make_iceoryx, 4},
    {"iceoryx/loan", "gantry-peer-iceoryx", "loan", kIceoryxPackages, make_iceoryx, 4, 1},
    {"zeromq", "gantry-peer-zeromq", "", "libzmq3-dev", make_plain},
    {"nng", "gantry-peer-nng", "", "libnng-dev", make_plain, 4},
    {"boost/queue", "gantry-peer-boost", "queue", "libboost-dev", make_boost, 3, kMostInFlight, 1},
    {"boost/memory", "gantry-peer-boost", "memory", "libboost-dev", make_boost, 2},
};

}  // namespace

std::vector<SubjectKind> peer_subjects(Report& report,
                                       const std::function<bool(std::string_view)>& wants,
                                       const Wrapper& wrapper) {
  std::vector<SubjectKind> kinds;
  for (const Entry& entry : kEntries) {
    if (!wants(entry.name)) continue;
    if (!admit_peer(report, entry.name, entry.program, entry.packages)) continue;
    kinds.push_back({.name = entry.name,
                     .make =
                         [&entry, wrapper](const Case& what) {
                           return entry.make(entry.program, entry.variant, what, wrapper);
                         },
                     .buffers = entry.buffers,
                     .is_peer = true,
                     .most_in_flight = entry.most_in_flight,
                     .most_readers = entry.most_readers,
                     .most_bytes = entry.most_bytes});
  }
  return kinds;
}

std::vector<std::string> peer_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) names.emplace_back(entry.name);
  return names;
}

}  // namespace gantry::bench
