#include "remote/exported_slabs.hpp"

#include <algorithm>

#include "base/result.hpp"

namespace gantry {

Result<std::optional<ExportedSlabs::Place>> ExportedSlabs::find(Link& link, const Message& message,
                                                                ConstByteSpan bytes) {
  const auto slice =
      message.owner() == nullptr ? std::nullopt : message.owner()->where(message.token(), bytes);
  if (!slice) return std::nullopt;
  auto slab = std::ranges::find(slabs_, slice->region, &Slab::region);
  if (slab == slabs_.end()) {
    GANTRY_ASSIGN(Export exported, link.export_region(*slice->region, RemoteAccess::read));
    slab = slabs_.insert(slab, {slice->region, std::move(exported)});
  }
  return Place{slab->exported.remote(), slice->offset};
}

void ExportedSlabs::sweep() noexcept {
  // Only this thread gives away what it holds: nobody can take a slab that it alone has.
  std::erase_if(slabs_, [](const Slab& slab) { return slab.region.use_count() == 1; });
}

}  // namespace gantry
