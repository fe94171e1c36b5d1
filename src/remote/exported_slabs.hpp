#pragma once  // remote/exported_slabs.hpp: memory of messages that the far end may read past the
              // socket.

#include <gantry/channel/message.hpp>
#include <gantry/link.hpp>
#include <list>

namespace gantry {

/// What goes past a link's socket lies in a region that was exported whole. So each slab in which a
/// message lies is exported once over the present link, for as long as its channel has it mapped.
///   I1  A slab stays mapped for as long as it is exported: another mapping may get its address.
///   I2  A slab that nobody else has any more holds no message, and its export ends at the next
///       sweep().
class ExportedSlabs {
 public:
  struct Place {
    RemoteRegion region;
    Bytes offset = 0;
  };
  /// Where these bytes of a message lie in a slab; nothing: they lie in none. Errors: the link's
  /// end, `busy`.
  [[nodiscard]] Result<std::optional<Place>> find(Link& link, const Message& message,
                                                  ConstByteSpan bytes);
  [[nodiscard]] std::size_t size() const noexcept { return slabs_.size(); }
  void sweep() noexcept;
  /// The link has ended.
  void clear() noexcept { slabs_.clear(); }

 private:
  struct Slab {
    std::shared_ptr<const Region> region;
    Export exported;  // ends first
  };
  std::list<Slab> slabs_;  // none is ever moved: its export ends before its region
};

}  // namespace gantry
