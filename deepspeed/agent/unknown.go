package agent

import (
	"net"
	"slices"
	"sync"

	"tensorstack.dev/jobs/common/listen"
)

// maxUnknown is how many connections a server keeps whose peers have not shown the job's key yet. Each may hold a
// packet of 256 KiB, in the memory of the training container.
const maxUnknown = 32

// unknowns are the connections of such peers, the oldest first.
type unknowns struct {
	mu    sync.Mutex
	conns []net.Conn
}

// add takes a connection. If there are too many, it closes the oldest one from the address that has the most: whoever
// opens many only takes the place of its own.
func (u *unknowns) add(conn net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conns = append(u.conns, conn)
	//attack:a worker keeps the connections of all strangers => if true {
	if len(u.conns) <= maxUnknown {
		return
	}
	surplus := listen.OfBusiestAddress(u.conns)[0]
	_ = surplus.Close()
	u.drop(surplus)
}

// remove forgets a connection, which has ended or whose peer has shown the key.
func (u *unknowns) remove(conn net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drop(conn)
}

func (u *unknowns) drop(conn net.Conn) {
	u.conns = slices.DeleteFunc(u.conns, func(c net.Conn) bool { return c == conn })
}
