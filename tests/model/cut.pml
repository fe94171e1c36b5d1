/* A reader that is cut while it lives: too slow with SlowConsumer::disconnect, or it cannot be told of
 * new memory. ConsumerSet::cut(), left(), forget_departed() (src/core/channel/fan_out/consumer_set.cpp),
 * SendOperation::publish_then_copy(), landed(), abort() (send_operation.cpp),
 * IncomingMessage::landed(), ReceiveQueue::look(), ReceivedPayloads::hear(), Consumer::Impl::leave()
 * (src/core/channel/consumer).
 *
 * The producer takes the cut reader out of its readers at once and shuts down its own direction of
 * the socket. The slots go back; what lies in them stays as it is ("departed") until the reader
 * released it, hung up without having taken it, or died. The cut reader takes what is in its ring,
 * sees the end of the socket, and hangs up: that is its confirmation that it reads no more.
 *
 * Each message is whole when it is published, or lands after; its sender may give it up half-way.
 * The cut reader may wait for one that lands in a slot that is lent again: the landing word is for
 * the message whose number stands beside it. The other readers, for whom the producer goes on, are
 * quick: whatever is sent they have released when the sender is done.
 *
 * Properties. What is handed out is what was sent, and is not written while it is in hand (hand_out(),
 * give_back(), write()). What an honest sender stores never looks dishonest (look_at_landing(),
 * hold()). All memory comes back when the reader is gone, and whoever waits for it is woken (the
 * last wait of Producer; invalid end states).
 */
#ifndef MESSAGES
#define MESSAGES 3
#endif
#ifndef SLOTS
#define SLOTS 2                 /* 2 or 3 */
#endif
#ifndef BLOCKS
#define BLOCKS SLOTS            /* with as many as slots the cut reader may have them all */
#endif
#define CHUNKS 2
#define ABORTED 128             /* LandingWord::kAborted */
#define TORN 255
#define NONE 255
#define NAME(number, chunk) ((number) * 8 + (chunk))
#define AT(b, chunk) ((b) * CHUNKS + (chunk))

#ifdef DEATH
#define MORTAL(dead) unless { dead }
#else
#define MORTAL(dead)
#endif

/* ---- shared memory ---- */
byte sequence;                  /* of the newest record in its ring; the message's number [P] */
byte slot_of[MESSAGES + 1], block_of[MESSAGES + 1];     /* what the records say */
bool is_landing[MESSAGES + 1];                          /* kLanding */
bool end;                       /* [E] */
byte taken;                     /* [T] */
byte released[SLOTS];           /* [R] */
byte landing[SLOTS], landing_number[SLOTS];             /* LandingWord::word, number [L] */
byte content[BLOCKS * CHUNKS];  /* payload */
bool producer_sleeps, producer_event, rang;

/* ---- what the kernel knows ---- */
bool shut;                      /* the producer's direction of the socket */
bool hung_up, dead;             /* the reader's */

/* ---- the producer's process, under its lock ---- */
bool member = true, is_cut, death_seen;
byte slot_number[SLOTS], slot_block[SLOTS];     /* Slot; number 0: free */
bool holds[SLOTS];                              /* ConsumerState::holds() */
bool sends[SLOTS];                              /* kSenderBit */
byte users[BLOCKS];                             /* handles of a block */
byte departed_number[SLOTS], departed_block[SLOTS];     /* Departed::memory; number 0: none */

/* ---- what the properties speak of ---- */
bool in_hand[BLOCKS * CHUNKS];

/* ---- the readers, as the producer knows them ---- */

#if SLOTS > 2
#define EACH_SLOT(what) what(0); what(1); what(2)
#else
#define EACH_SLOT(what) what(0); what(1)
#endif

inline remove_if_unneeded(s) {                  /* SlotTable::remove() */
  if
  :: slot_number[s] != 0 && !holds[s] && !sends[s] ->
     users[slot_block[s]]--;
     slot_number[s] = 0
  :: else
  fi
}

inline let_go(s) {
  holds[s] = false;
  remove_if_unneeded(s)
}

inline reclaim(s) {                             /* [R] [D2] */
  if
  :: holds[s] && released[s] == slot_number[s] -> let_go(s)
  :: else
  fi
}

inline drop_departed(s) {
  users[departed_block[s]]--;
  departed_number[s] = 0
}

inline forget_departed(s) {                     /* by its pidfd or its releases */
  if
  :: departed_number[s] != 0 && (dead || released[s] == departed_number[s]) -> drop_departed(s)
  :: else
  fi
}

inline look_at(s) { atomic { reclaim(s); forget_departed(s) } }

/* The slot goes; that block is written by nobody until forget_departed() or confirm(). */
inline depart(s) {
  if
  :: holds[s] ->
     departed_number[s] = slot_number[s];
     departed_block[s] = slot_block[s];
     users[slot_block[s]]++;                    /* Slot::share() */
     let_go(s)
  :: else
  fi
}

inline let_go_if_unread(s) {
  if
  :: holds[s] && slot_number[s] > taken -> let_go(s)
  :: else
  fi
}

inline cut() {
  atomic {
    member = false;
    is_cut = true;
    EACH_SLOT(reclaim);
#ifdef MUTANT_FREED_AT_THE_CUT
    EACH_SLOT(let_go);
#endif
#ifdef MUTANT_UNREAD_FREED_AT_THE_CUT
    EACH_SLOT(let_go_if_unread);
#endif
    EACH_SLOT(depart);
#ifdef MUTANT_TAKEN_AS_OF_THE_CUT
    taken_at_cut = taken;
#endif
    shut = true                                 /* shutdown(SHUT_WR): the other direction goes on */
  }
}

#ifdef MUTANT_TAKEN_AS_OF_THE_CUT
byte taken_at_cut;
#define TAKEN taken_at_cut
#else
#define TAKEN taken                             /* [T]: what it has, it took before it hung up */
#endif

inline confirm_slot(s) {
  if
#ifdef MUTANT_HELD_FREED_AT_CONFIRMATION
  :: departed_number[s] != 0 -> drop_departed(s)
#else
  :: departed_number[s] > TAKEN -> drop_departed(s)
#endif
  :: else
  fi
}

/* left() of one that was not cut. */
inline leave() {
  EACH_SLOT(reclaim);
  EACH_SLOT(let_go_if_unread);
  EACH_SLOT(depart);
  member = false
}

#ifdef MUTANT_NO_CONFIRMATION
#define CONFIRMED true                          /* our own shutdown(2), taken for its hang-up */
#else
#define CONFIRMED (hung_up || dead)
#endif

inline ring_departure() {
#ifdef MUTANT_CONFIRMED_WITHOUT_RING
  skip
#else
  producer_event = true
#endif
}

/* Its hang-up is seen a moment before its death, or together with it. */
proctype Acceptor() {
end_nobody_left:
  do
  :: atomic { member && (hung_up || dead) -> leave() };
     producer_event = true
  :: atomic { is_cut && CONFIRMED -> EACH_SLOT(confirm_slot); is_cut = false };  /* confirm() */
     ring_departure()
  :: atomic { dead && !member && !death_seen -> death_seen = true; EACH_SLOT(forget_departed) };
     producer_event = true                      /* departed_died() */
  od
}

/* ---- the sender ---- */

inline refresh() {
  EACH_SLOT(look_at)
}

inline look_for_slot() {                        /* may_send(): the lowest, so that it is soon lent again */
  refresh();
  atomic {
    slot = 0;
    do
    :: slot < SLOTS && slot_number[slot] != 0 -> slot++
    :: else -> break
    od;
    there = slot < SLOTS
  }
}

inline look_for_memory() {                      /* allocate() */
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
     atomic { producer_sleeps = true; rang = false };  /* announce() [D1] */ \
     look;                                                     \
     if                                                        \
     :: there -> producer_sleeps = false                       \
     :: else ->                                                \
        (producer_event);                       /* poll() */   \
        producer_sleeps = false;                               \
        producer_event = false                  /* drain() */  \
     fi                                                        \
  od

inline write(chunk) {
  assert(dead || !in_hand[AT(block, chunk)]);
  content[AT(block, chunk)] = NAME(number, chunk)
}

inline publish() {                              /* Publisher::publish() [P] [D3] */
  atomic {
    slot_of[number] = slot;
    block_of[number] = block;
    is_landing[number] = lands;
    if
    :: member -> holds[slot] = true; sequence = number
    :: else
    fi
  }
}

inline perhaps_cut() {
  if
  :: member -> cut()
  :: true
  fi
}

proctype Producer() {
  byte number, slot, block;
  bool there, lands;
  do
  :: number < MESSAGES ->
     perhaps_cut();                             /* by a small message, which takes no slot */
     WAIT_UNTIL(look_for_slot());
     atomic { number++; slot_number[slot] = number; sends[slot] = true };        /* take_slot() */
     WAIT_UNTIL(look_for_memory());
     atomic { users[block] = 1; slot_block[slot] = block };
     perhaps_cut();                             /* announce(), or in publish() before it is given */
     if
     :: lands = false;
        atomic { write(0); write(1) };
        publish()
     :: lands = true;
        atomic { content[AT(block, 0)] = TORN; content[AT(block, 1)] = TORN };
#ifdef MUTANT_NUMBER_WRITTEN_AFTER
        landing[slot] = 0;
        landing_number[slot] = number;
#else
        landing_number[slot] = number;          /* [L] seq_cst */
        landing[slot] = 0;
#endif
        publish();
        if
        :: landing[slot] = ABORTED              /* abort() */
        :: write(0);
           landing[slot] = 1;                   /* landed() [L] [D3] */
           if
           :: landing[slot] = 1 | ABORTED
           :: write(1);
              landing[slot] = 2
           fi
        fi
     fi;
     atomic { sends[slot] = false; remove_if_unneeded(slot) }    /* finish() */
  :: else -> break
  od;
  perhaps_cut();
  end = true;                                   /* close() [E] [D3] */
  WAIT_UNTIL(look_whether_all_is_back())
}

/* ---- the reader ---- */

inline ring_producer() {
  atomic {
    must = producer_sleeps && !rang;            /* [D4] */
    rang = rang || must
  };
  if
  :: atomic { must -> producer_event = true }
  :: else
  fi
}

inline look_at_landing() {                      /* IncomingMessage::landed() */
#ifdef MUTANT_NUMBER_READ_FIRST
  beside = landing_number[in_slot];
  word = landing[in_slot];
#else
  word = landing[in_slot];                      /* [L] [D2] */
#ifdef MUTANT_NUMBER_NOT_READ
  beside = own;
#else
  beside = landing_number[in_slot];
#endif
#endif
  atomic {
    if
    :: beside == own ->
       assert(word % ABORTED >= landed && word % ABORTED <= CHUNKS);
       landed = word % ABORTED;
       aborted = word >= ABORTED
    :: else -> gone = true                      /* it was cut, and the slot is lent again */
    fi;
    word = 0;
    beside = 0
  }
}

inline hand_out(chunk) {
  atomic {
    assert(content[AT(in_block, chunk)] == NAME(own, chunk));
    in_hand[AT(in_block, chunk)] = true
  }
}

/* Message::release(), or of an Incoming that comes to nothing; of what was handed out the last look
 * comes before it. */
inline give_back(s) {
  atomic {
    number = held[s];
    in_block = block_of[number];
    chunk = 0;
    do
    :: chunk < CHUNKS ->
       assert(!in_hand[AT(in_block, chunk)] || content[AT(in_block, chunk)] == NAME(number, chunk));
       in_hand[AT(in_block, chunk)] = false;
       chunk++
    :: else -> break
    od;
    chunk = 0;
    in_block = 0
  };
  atomic { released[s] = number; number = 0; held[s] = 0 };      /* [R] [D3] */
  ring_producer()
}

/* A message that lands, chunk by chunk as receive_early() does. */
inline take_as_it_lands() {
  do
  :: landed > chunk -> hand_out(chunk); chunk++
  :: landed == chunk && chunk == CHUNKS -> break
  :: landed == chunk && chunk < CHUNKS ->
     if
     :: aborted || gone -> break
     :: else
     fi;
     /* asleep until the word changes or the socket ends; wait_flag.pml and landing.pml have that */
     (landing[in_slot] != landed || landing_number[in_slot] != own || shut);
     look_at_landing()
  od
}

proctype Consumer() {
  byte own, in_slot, in_block, landed, chunk, word, beside, number;
  byte held[SLOTS];
  bool gone, aborted, must;
  {
    do
    :: sequence > own && !gone ->               /* look(): the ring before the socket */
       atomic { own++; taken = own };           /* report_taken() [T] */
       atomic {
         in_slot = slot_of[own];
         in_block = block_of[own];
         assert(held[in_slot] == 0);            /* hold() */
         held[in_slot] = own;
         landed = (is_landing[own] -> 0 : CHUNKS)
       };
       take_as_it_lands();
       atomic {
         chunk = 0;
         if
         :: landed < CHUNKS -> aborted = false; landed = 0; number = 1
         :: else -> number = 0
         fi;
         in_block = 0
       };
       if
       :: atomic { number == 1 -> number = 0 }; give_back(in_slot)      /* `aborted`, `peer_gone` */
       :: atomic { else -> landed = 0 }
       fi
    :: held[0] != 0 -> give_back(0)
    :: held[1] != 0 -> give_back(1)
#if SLOTS > 2
    :: held[2] != 0 -> give_back(2)
#endif
    :: gone || (shut && sequence == own) -> break               /* `peer_gone` */
#ifdef MUTANT_CONFIRMED_TOO_EARLY
    :: shut && !hung_up -> hung_up = true       /* the socket before the ring */
#endif
    :: end && sequence == own -> break          /* `closed` */
#ifdef LEAVES
    :: true -> break
#endif
    od;
#ifdef MUTANT_CUT_OFF_BUT_NOT_CONFIRMED
    hung_up = !gone;
#else
    hung_up = true;                             /* confirm_end(), or leave() */
#endif
    do
    :: held[0] != 0 -> give_back(0)
    :: held[1] != 0 -> give_back(1)
#if SLOTS > 2
    :: held[2] != 0 -> give_back(2)
#endif
    :: else -> break
    od
  } MORTAL(dead)
}

proctype Reaper() {
#ifdef DEATH
  if
  :: dead = true
  :: skip
  fi
#else
  skip
#endif
}

init {
  atomic { run Producer(); run Acceptor(); run Consumer(); run Reaper() }
}
