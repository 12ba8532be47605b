package progress

import (
	"context"
	"log"
	"net"
	"net/http"
	"time"

	"tensorstack.dev/jobs/common/listen"
)

// The limits of a server in the container of a training, whose memory belongs to the training.
const (
	// maxStrangers is the maximum number of connections of clients that have not shown that they know the token.
	maxStrangers = 64
	// maxHeader is the maximum size of the header of a request, in bytes.
	maxHeader = 4 << 10
	// strangerTimeout is how long a client can take to send a request.
	strangerTimeout = 5 * time.Second
)

// Listen listens at a port of the pod, for a server from NewServer.
func Listen(ctx context.Context, port string) (net.Listener, error) {
	return listen.TCP(ctx, net.JoinHostPort("", port), maxStrangers)
}

// NewServer returns a server for the container of a training. Its handler includes one from Handler.
func NewServer(handler http.Handler, logger *log.Logger) *http.Server {
	server := listen.NewServer(handler)
	server.ErrorLog = logger
	server.MaxHeaderBytes = maxHeader
	server.ReadTimeout, server.IdleTimeout = strangerTimeout, strangerTimeout
	return server
}
