#include "peers.hpp"

#include <dlfcn.h>
#include <stdlib.h>

#include "../../peers/built.hpp"
#include "../../support/system/posix.hpp"

namespace gantry::bench {
namespace {

Error cannot(std::string why) {
  return {Code::unsupported, std::move(why), ""};
}

}  // namespace

Result<Reshaping> reshaping_of(const ReshapePeer& peer, const ReshapeTask& task) {
  if (auto lack = lack_of_peer(peer.library, peer.packages))
    return Unexpected({Code::not_found, *std::move(lack), ""});
  // Read when the libraries below it are opened: all of them are to take one thread, the caller's.
  for (const char* threads : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) ::setenv(threads, "1", 1);
  void* const library =
      ::dlopen(peer_path(peer.library).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return Unexpected(cannot(::dlerror()));
  const auto make = reinterpret_cast<GantryReshapePeer>(::dlsym(library, kReshapePeer));
  if (make == nullptr) return Unexpected(cannot(::dlerror()));
  Reshaping made;
  std::string why;
  if (!make(task, peer.variant, made, why)) return Unexpected(cannot(std::move(why)));
  return made;
}

}  // namespace gantry::bench
