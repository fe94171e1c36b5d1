/* A relay passes messages of its origin on without a copy: Draft::forward(). What the origin may
 * write again, and when, if the relay's process ends while downstream still holds them:
 * DepartedConsumers (src/core/channel/fan_out/consumer_set.cpp), ConsumerSet::left(), ~ConsumerSet()
 * (consumer_set.cpp), AnnouncedSlabs (announced_slabs.cpp), ReceivedSlabs (received_slabs.cpp).
 *
 * The memory's descriptor goes downstream with a duplicate of the relay's wake-up sender, one end of
 * a socket pair whose other end the origin has. Downstream closes it when it unmaps the memory. So the
 * origin sees by the hang-up of that pair that nobody is left who could read.
 *
 * One slab, announced downstream before the first message in it. The relay may close both its ends
 * at any step and end later; with DEATH it may be killed as well, and so may downstream.
 *
 * Properties. What downstream hands out is what the origin sent, and is not written while it is in
 * hand (hand_out(), give_back(), write()). All memory comes back in the end and the origin, which
 * waits for it, is woken (the last wait of Origin; invalid end states).
 */
#ifndef MESSAGES
#define MESSAGES 3
#endif
#ifndef BLOCKS
#define BLOCKS 2
#endif
#define NONE 255

#ifdef DEATH
#define MORTAL(dead) unless { dead }
#else
#define MORTAL(dead)
#endif

/* ---- shared memory ---- */
byte content[BLOCKS];                   /* payload */
byte block_of[MESSAGES + 1];            /* what the records say, in both rings */
byte sequence;                          /* origin's ring for the relay [P] */
byte relay_taken;                       /* [T] */
bool released[MESSAGES + 1];            /* by the relay [R] */
byte down_sequence;                     /* the relay's ring for downstream [P] */
byte down_taken;                        /* [T] */
bool down_released[MESSAGES + 1];       /* by downstream [R] */
bool origin_sleeps, origin_event, rang;

/* ---- what the kernel knows ---- */
bool relay_hung_up, relay_dead;         /* its line to the origin; its process */
bool relay_shut;                        /* its line to downstream: closed, or it died */
bool killed;                            /* the relay was */
bool down_closed, down_dead;            /* downstream's line to the relay; its process */
bool packet;                            /* on its way downstream: memory and duplicate */
bool relay_has_sender = true, down_has_sender;
#define HAS_OTHER_END (relay_has_sender || down_has_sender || packet)

/* ---- the origin's process ---- */
bool member = true, departed, death_seen;
bool needed[MESSAGES + 1];              /* by the relay: its slot, or Departed::memory */
byte users[BLOCKS];

/* ---- what the properties speak of ---- */
bool in_hand[MESSAGES + 1];

/* Whoever closes the last copy of the wake-up sender rings the origin thereby. */
#ifdef MUTANT_HANG_UP_NOT_WATCHED
#define NOTICE_HANG_UP skip
#else
#define NOTICE_HANG_UP origin_event = origin_event || !HAS_OTHER_END
#endif

/* ---- the origin ---- */

inline drop(m) {
  needed[m] = false;
  users[block_of[m]]--
}

#ifdef MUTANT_FREED_AT_RELAYS_DEATH
#define NOBODY_READS relay_dead
#else
#define NOBODY_READS (relay_dead && !HAS_OTHER_END)             /* DepartedConsumers::is_over() */
#endif

inline refresh() {                              /* reclaim(), sweep(): message by message */
  m = 1;
  do
  :: atomic { m <= number ->
       if
       :: needed[m] && (released[m] || (departed && NOBODY_READS)) -> drop(m)
       :: else
       fi;
       m++ }
  :: atomic { m > number -> m = 0; break }
  od
}

inline look_for_memory() {
  refresh();
  atomic {
    block = 0;
    do
    :: block < BLOCKS && users[block] != 0 -> block++
    :: else -> break
    od;
    there = block < BLOCKS
  }
}

inline look_whether_all_is_back() {
  refresh();
  atomic {
    there = true;
    block = 0;
    do
    :: block < BLOCKS -> there = there && users[block] == 0; block++
    :: else -> break
    od;
    block = 0
  }
}

/* Producer::Impl::wait_until() */
#define WAIT_UNTIL(look)    \
  do                                                           \
  :: look;                                                     \
     if                                                        \
     :: there -> break                                         \
     :: else                                                   \
     fi;                                                       \
     atomic { origin_sleeps = true; rang = false };  /* announce() [D1] */ \
     look;                                                     \
     if                                                        \
     :: there -> origin_sleeps = false                         \
     :: else ->                                                \
        (origin_event);                         /* poll() */   \
        origin_sleeps = false;                                 \
        origin_event = false                    /* drain() */  \
     fi                                                        \
  od

inline write() {
  atomic {
    m = 1;
    do
    :: m < number -> assert(down_dead || !in_hand[m] || block_of[m] != block); m++
    :: else -> break
    od;
    m = 0;
    content[block] = number
  }
}

proctype Origin() {
  byte number, block, m;
  bool there;
  do
  :: number < MESSAGES ->
     WAIT_UNTIL(look_for_memory());
     atomic { number++; block_of[number] = block; users[block] = 1 };
     write();
     atomic {                                   /* publish(); without a reader it is given up */
       if
       :: member -> needed[number] = true; sequence = number
       :: else -> users[block]--
       fi
     }
  :: else -> break
  od;
  WAIT_UNTIL(look_whether_all_is_back())
}

/* left(). What the relay had not taken nobody reads; the rest departs. */
inline left() {
  i = 1;
  do
  :: i <= MESSAGES ->
     if
     :: needed[i] && (released[i] || i > relay_taken) -> drop(i)
#ifdef MUTANT_FREED_AT_RELAYS_CLOSE
     :: needed[i] && !released[i] && i <= relay_taken -> drop(i)
#endif
     :: else
     fi;
     i++
  :: else -> break
  od;
  i = 0;
  member = false;
  departed = true
}

proctype OriginsAcceptor() {
  byte i;
end_nobody_left:
  do
  :: atomic { member && (relay_hung_up || relay_dead) -> left() };
     origin_event = true
  :: atomic { !member && relay_dead && !death_seen -> death_seen = true };
     origin_event = true                        /* departed_died() */
  od
}

/* ---- the relay ---- */

inline ring_origin() {
  atomic {
    must = origin_sleeps && !rang;              /* [D4] */
    rang = rang || must
  };
  if
  :: atomic { must -> origin_event = true }
  :: else
  fi
}

/* A slot of the relay comes back: the forwarded message is released upstream. */
inline pass_release(n) {
  released[n] = true;                           /* [R] [D3] */
  ring_origin()
}

proctype Relay() {
  byte back = 1;
  bool must, announced;
  {
    do
    :: sequence > relay_taken ->                /* receive() */
       relay_taken = relay_taken + 1;
       if
       :: !announced && !down_dead ->           /* announce() */
          announced = true;
#ifdef MUTANT_WITHOUT_A_DUPLICATE
          skip
#else
          atomic { packet = !down_closed; NOTICE_HANG_UP }
#endif
       :: else
       fi;
       down_sequence = relay_taken              /* Publisher::publish() */
    :: back <= down_sequence &&
       (down_released[back] || down_dead || (down_closed && back > down_taken)) ->
       pass_release(back);                      /* the acceptor watches forwards */
       back++
    :: true -> break                            /* closes both ends */
    od;
    if
    :: relay_shut = true; relay_hung_up = true  /* ~Producer(), then ~Consumer() */
    :: relay_hung_up = true; relay_shut = true
    fi;
#ifdef MUTANT_RELEASED_AT_CLOSE
    do                                          /* instead of Slot::abandon() */
    :: back <= down_sequence -> pass_release(back); back++
    :: else -> break
    od
#endif
    skip
  } MORTAL(killed);
  atomic {                                      /* its process ends */
    relay_shut = true;
    relay_hung_up = true;
    relay_has_sender = false;
    NOTICE_HANG_UP
  };
  relay_dead = true
}

/* ---- downstream ---- */

inline hand_out(n) {
  atomic {
    assert(content[block_of[n]] == n);
    in_hand[n] = true
  }
}

inline give_back(n) {
  atomic { assert(content[block_of[n]] == n); in_hand[n] = false };
  down_released[n] = true                       /* [R] */
}

inline unmap() {
  atomic { down_has_sender = false; NOTICE_HANG_UP }
}

proctype Downstream() {
  byte own, oldest = 1;
  bool mapped;
  {
    do
    :: down_sequence > own ->                   /* the ring before the socket */
       if
       :: !mapped ->                            /* ReceivedSlabs::find() */
#ifdef MUTANT_WITHOUT_A_DUPLICATE
          mapped = true
#else
          atomic { packet -> packet = false; mapped = true; down_has_sender = true }
#endif
       :: else
       fi;
       atomic { own++; down_taken = own };      /* report_taken() */
       hand_out(own)
    :: oldest <= own -> give_back(oldest); oldest++
#ifdef MUTANT_SENDER_CLOSED_AT_THE_END
    :: down_has_sender && relay_shut -> unmap()
#endif
    :: relay_shut && down_sequence == own -> break              /* `peer_gone` */
    :: true -> break                                            /* it leaves */
    od;
    atomic { down_closed = true; packet = false; NOTICE_HANG_UP };
#ifdef MUTANT_SENDER_CLOSED_ON_LEAVING
    unmap();
#endif
    do
    :: oldest <= own -> give_back(oldest); oldest++
    :: else -> break
    od;
    unmap()                                     /* the last message was the last to keep it */
  } MORTAL(down_dead);
  atomic {                                      /* its process ends */
    down_closed = true;
    packet = false;
    down_has_sender = false;
    NOTICE_HANG_UP
  }
}

/* kill -9, at any step or never */
proctype Reaper() {
#ifdef DEATH
  if
  :: killed = true
  :: down_dead = true
  :: skip
  fi
#else
  skip
#endif
}

init {
  atomic { run Origin(); run OriginsAcceptor(); run Relay(); run Downstream(); run Reaper() }
}
