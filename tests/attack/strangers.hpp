#pragma once  // attack/strangers.hpp: the attacks of one who is not admitted.

#include <string>

namespace gantry::attack {

void say_nothing_16(const std::string& directory);
void say_nothing_64(const std::string& directory);
void send_garbage(const std::string& directory);
void send_lingering_sockets(const std::string& directory);
/// As a bridge of the same user: lines that say nothing, nonsense, or hand over what nobody calls.
void hand_over_nonsense(const std::string& directory);
void connect_and_close(const std::string& directory);

}  // namespace gantry::attack
