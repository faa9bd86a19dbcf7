-- One experiment's events, in one total order of positions. Nothing in `events` is ever changed; see
-- docs/reference/store-format.md. Later versions add fields to bodies, not columns.

create table meta (          -- format, first policy, rules of rewards, secret, epochs, what was said about it
    name text primary key,
    value text not null
) without rowid;

create table events (
    position integer primary key,
    kind text not null,      -- any word: a reader refuses those it does not know
    id text not null,        -- of the decision, or the name of an expert or a setting
    key text not null,       -- tells parts of a sum, corrections and changes of one expert apart
    value real,              -- reward, default, correction, or an expert's prior share
    time real not null,      -- for people and for erasing; the fold never looks at it
    deferred integer not null,
    seen integer,            -- position of the state a decision was made with
    sender text,             -- name of the key that sent it; null: the service itself
    unit text,               -- whose decision it is, where units keep theirs, and which one of the unit's
    turn integer,
    slate text,              -- decisions that were made together, and the place of each
    slot integer,
    body text,               -- JSON: what a kind has beside these
    numbers blob,            -- of a decision: float64, little-endian, one after the other; then the votes
    before blob              -- room for a chain: a hash of what came before
);

create unique index once on events (id, kind, key);  -- this is the idempotence
create unique index turns on events (unit, turn) where unit is not null;
create unique index slots on events (slate, slot) where slate is not null;
create index changes on events (position) where kind in ('expert added', 'expert retired', 'configuration');

create table contexts (      -- erased after a while; the fold of fixed experts does not need them
    time real not null,      -- of its decision: the oldest are found first
    position integer not null,
    salt blob,               -- room for a chain: it knows a context by a salted hash, and the salt goes with it
    features blob,           -- digests of the feature rows of all arms offered, 16 bytes each, or of the drawn one
    body text,               -- JSON; null where only features were given
    primary key (time, position)
) without rowid;

create table features (      -- what was known of arms, each row once; erased with the last context that needs it
    digest text primary key, -- hexadecimal
    time real not null,      -- of the last decision that offered it
    body text not null
) without rowid;

create index age on features (time);

create table names (         -- lists of arms that were offered, each once; they stay with their records
    digest text primary key,
    body text not null
) without rowid;

create table snapshots (
    position integer primary key,
    fingerprint text not null,
    format text not null,
    time real not null,
    digest blob not null,    -- of all the rest
    content blob not null
);
