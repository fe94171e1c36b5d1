#pragma once  // tools/gantry/page/report_page.hpp: the page as one file that needs no server.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gantry::cli {

/// HTML with everything in it; `report` has what page.js reads of kReport: "run", "status" and
/// "history". A script that came in by a name in it would not run.
[[nodiscard]] std::string report_page(const nlohmann::ordered_json& report);

}  // namespace gantry::cli
