package agent

import (
	"net"
	"slices"
	"sync"

	"tensorstack.dev/jobs/common/listen"
)

// maxUnknown is the number of connections that a server keeps from peers that are not authenticated yet. Each
// connection can hold a packet of 256 KiB, in the memory of the training container.
const maxUnknown = 32

// unknowns are the connections from peers that are not authenticated, the oldest first.
type unknowns struct {
	mu    sync.Mutex
	conns []net.Conn
}

// add adds a connection. If there are too many, it closes the oldest connection from the address with the most
// connections. So a peer that opens many connections only closes its own.
func (u *unknowns) add(conn net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conns = append(u.conns, conn)
	if len(u.conns) <= maxUnknown {
		return
	}
	surplus := listen.OfBusiestAddress(u.conns)[0]
	_ = surplus.Close()
	u.drop(surplus)
}

// remove removes a connection that has ended or whose peer is authenticated.
func (u *unknowns) remove(conn net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.drop(conn)
}

func (u *unknowns) drop(conn net.Conn) {
	u.conns = slices.DeleteFunc(u.conns, func(c net.Conn) bool { return c == conn })
}
