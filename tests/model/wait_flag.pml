/* Going to sleep without missing the wake-up: src/core/sync/wait_flag.hpp, base/wake.hpp, and the turns of
 * wait_once() in src/core/channel/wire/waiter.hpp.
 *
 * One sleeper S; two threads X and Y of the other side that share one WakeFilter, as a consumer's
 * threads do when one receives and another releases. Each changes its own word W twice; S wants all
 * four changes. Every load and store of shared memory is a step of its own, in the one order that
 * seq_cst gives; `last_` is exchanged in one step. The wake-up socket is sticky: that it was rung counts,
 * not how often, so it is one bit.
 *
 * Property: nobody is asleep for ever, which Spin sees as an invalid end state.
 */
#define CHANGES 2

byte intent;    /* WaitFlag::intent_, S's word */
byte last;      /* WakeFilter::last_ of the other side */
bool event;     /* S's wake-up socket */
byte word[2];   /* W of X and of Y */

inline announce() {
#ifdef MUTANT_SAME_NUMBER_EACH_SLEEP
  intent = 1
#else
  intent = intent + 1                     /* WaitFlag::announce() [D1] */
#endif
}

inline withdraw() {
#ifdef MUTANT_SAME_NUMBER_EACH_SLEEP
  intent = 0
#else
  intent = intent + 1                     /* WaitFlag::withdraw() */
#endif
}

/* What S waits for: word[0] [D2], then word[1] [D2]; a look may see one of them old. */
inline look() {
  seen_x = word[0];
  seen_y = word[1]
}

proctype Sleeper() {
  byte seen_x, seen_y, seen_before;
  do
  :: look();                              /* wait_once(): ready() before announcing */
     if
     :: seen_x + seen_y == 2 * CHANGES -> break
     :: else
     fi;
     seen_before = seen_x + seen_y;
#ifdef MUTANT_INTENT_AFTER_LOOK
     look();
     announce();
#else
     announce();
     look();
#endif
#ifdef MUTANT_DRAIN_AFTER_LOOK
     event = false;
#endif
     if
     :: seen_x + seen_y != seen_before -> withdraw()       /* came meanwhile */
     :: else ->
        (event);                          /* poll() */
        withdraw();
        event = false                     /* drain(), before the next look */
     fi
  od
}

proctype Changer(byte me) {
  byte seen, old, changes;
  do
  :: changes < CHANGES ->
     changes++;
#ifdef MUTANT_WRITER_LOOKS_FIRST
     seen = intent;
     word[me] = changes;
#else
     word[me] = changes;                  /* [D3] */
     seen = intent;                       /* WakeFilter::must_wake() [D4] */
#endif
     if
     :: seen % 2 == 0
     :: else ->
        d_step { old = last; last = seen };
        if
        :: old != seen -> event = true    /* ring() */
        :: else
        fi
     fi
  :: else -> break
  od
}

init {
  atomic { run Sleeper(); run Changer(0); run Changer(1) }
}
