package explore

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"tensorstack.dev/jobs/kit/model"
)

// found is what an exploration found.
type found struct {
	states, steps, rests int
	// wrong is what is wrong and how it came to that; empty if all is right.
	wrong string
}

// search is the state of an exploration.
type search struct {
	x    *exploration
	most int

	shards [64]struct {
		sync.Mutex

		ids map[digest]uint32
	}

	mu sync.Mutex
	// nodes are all states, by their number.
	nodes []node
	// names of actions, by their number.
	names   []string
	numbers map[string]uint16
	// frontier are the states that are yet to be looked at; busy is how many workers may add to them.
	frontier []numbered
	busy     int
	more     sync.Cond
	found    found
}

// maxStates is more than any exploration has in which so much goes wrong, and fewer than memory has room for.
func maxStates(most int) int {
	if most <= 2 && !*everything {
		return 1_000_000
	}
	return 100_000_000
}

// node is what is kept of a state once it has been looked at.
type node struct {
	// parent is the state that this one was first reached from, by which action.
	parent uint32
	action uint16
	// rests is set if nothing happens by itself any more; else quiet is what comes next if nothing goes wrong.
	rests bool
	quiet uint32
}

type numbered struct {
	id    uint32
	state *state
}

// explore looks at every life of the job in which no more than most things go wrong. It returns an error if the
// controller cannot be set up.
func (x *exploration) explore(k model.Kind, most int) (found, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // most of what there is stays
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(4 << 30))
	s := &search{x: x, most: most, numbers: map[string]uint16{}, busy: runtime.GOMAXPROCS(0)}
	s.more.L = &s.mu
	for i := range s.shards {
		s.shards[i].ids = map[digest]uint32{}
	}
	machines := make([]*machine, runtime.GOMAXPROCS(0))
	for i := range machines {
		var err error
		if machines[i], err = newMachine(k, explorationOptions()); err != nil {
			return found{}, err
		}
	}
	first := x.first(machines[0])
	s.meet(machines[0].encoder.digest(first), first, 0, "the user creates the job")
	var wg sync.WaitGroup
	for _, m := range machines {
		wg.Go(func() {
			for from := s.next(); from != nil; from = s.next() {
				s.look(m, *from)
			}
		})
	}
	wg.Wait()
	s.found.states = len(s.nodes)
	if s.found.wrong == "" {
		s.checkQuiet()
	}
	return s.found, nil
}

// first returns the state in which the user has just created the job.
func (x *exploration) first(m *machine) *state {
	nothing := model.Objects{}
	s := &state{
		live: model.Snapshot{Objects: nothing}, cache: model.NewCache(nothing), now: model.Birth,
		shape: &x.shape, dirty: true,
	}
	next, _ := m.successor(s, action{do: func(m *machine) {
		m.must(func(c *model.Cluster) error { return c.Create(m.kind.Job(x.shape)) })
	}})
	return next
}

// next returns a state to look at, nil if there are no more or something is wrong. The one that was met last goes
// first, so that few have to be kept.
func (s *search) next() *numbered {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	for len(s.frontier) == 0 && s.busy > 0 && s.found.wrong == "" {
		s.more.Wait()
	}
	if len(s.frontier) == 0 || s.found.wrong != "" {
		s.more.Broadcast()
		return nil
	}
	s.busy++
	last := len(s.frontier) - 1
	next := s.frontier[last]
	s.frontier[last] = numbered{}
	s.frontier = s.frontier[:last]
	return &next
}

// look looks at what may follow a state.
func (s *search) look(m *machine, from numbered) {
	quiet, order := uint32(0), 0
	actions := options{exploration: s.x, most: s.most}.actions(from.state)
	for _, a := range actions {
		next, wrong := m.successor(from.state, a)
		if len(wrong) > 0 {
			s.fail(from.id, a.name, strings.Join(wrong, "\n"))
			return
		}
		if next.spent.total() > s.most {
			continue // it goes wrong in two ways at once
		}
		id := s.meet(m.encoder.digest(next), next, from.id, a.name)
		if a.happensByItself() && (order == 0 || a.quiet < order) {
			quiet, order = id, a.quiet
		}
	}
	if order == 0 {
		if wrong := s.x.rest(m, from.state); len(wrong) > 0 {
			s.fail(from.id, "nothing happens any more", strings.Join(wrong, "\n"))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found.steps += len(actions)
	s.nodes[from.id].quiet, s.nodes[from.id].rests = quiet, order == 0
	if order == 0 {
		s.found.rests++
	}
}

// meet returns the number of a state, and puts it on the frontier if it is new.
func (s *search) meet(d digest, next *state, parent uint32, name string) uint32 {
	shard := &s.shards[d[0]%uint8(len(s.shards))]
	shard.Lock()
	defer shard.Unlock()
	if id, ok := shard.ids[d]; ok {
		return id
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	number, ok := s.numbers[name]
	if !ok {
		number = uint16(len(s.names)) //nolint:gosec // there are few names
		s.numbers[name] = number
		s.names = append(s.names, name)
	}
	id := uint32(len(s.nodes)) //nolint:gosec // there are never too many
	if int(id) >= maxStates(s.most) && s.found.wrong == "" {
		s.found.wrong = s.story(parent, name) + "there are too many states: something is counted without end"
	}
	s.nodes = append(s.nodes, node{parent: parent, action: number})
	s.frontier = append(s.frontier, numbered{id: id, state: next})
	shard.ids[d] = id
	s.more.Signal()
	return id
}

// fail ends the search with what is wrong and how it came to that.
func (s *search) fail(id uint32, last, wrong string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found.wrong != "" {
		return
	}
	s.found.wrong = s.story(id, last) + wrong
}

// longest is how many steps of a story are told.
const longest = 200

// story tells how it came to a state, and what happened last.
func (s *search) story(id uint32, last string) string {
	var b strings.Builder
	path := append(s.path(id), last)
	for i, name := range path {
		if i < longest/2 || i > len(path)-longest/2 {
			fmt.Fprintf(&b, "%3d. %s\n", i+1, name)
		}
	}
	return b.String()
}

func (s *search) path(id uint32) []string {
	var path []string
	for ; id != 0; id = s.nodes[id].parent {
		path = append(path, s.names[s.nodes[id].action])
	}
	path = append(path, s.names[s.nodes[0].action])
	slices.Reverse(path)
	return path
}

// checkQuiet checks that from every state the job comes to rest if nothing goes wrong any more.
func (s *search) checkQuiet() {
	const unknown, onTheWay, arrives = 0, 1, 2
	marks := make([]byte, len(s.nodes))
	for start := range uint32(len(s.nodes)) { //nolint:gosec // there are never too many
		var way []uint32
		id := start
		for marks[id] == unknown && !s.nodes[id].rests {
			marks[id] = onTheWay
			way = append(way, id)
			id = s.nodes[id].quiet
		}
		if marks[id] == onTheWay {
			s.fail(id, "and so on for ever", "the job never comes to rest, although nothing happens but by itself")
			return
		}
		marks[id] = arrives
		for _, passed := range way {
			marks[passed] = arrives
		}
	}
}
