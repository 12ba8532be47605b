package agent

import (
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// dialFrom opens a connection to worker 1 from the given address, as if it came from another pod.
func (j *job) dialFrom(address string) net.Conn {
	j.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := dialer.DialContext(j.t.Context(), "tcp", j.servers[1].listener.Addr().String())
	if err != nil {
		j.t.Fatal(err)
	}
	j.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// A pod that opens connections and sends nothing must neither fill the memory of a worker nor block the launcher.
func TestSilentConnectionsAreLimitedAndDoNotBlockOthers(t *testing.T) {
	const silent = 20 * maxUnknown
	j := newJob(t, 1)
	j.timing.dial = time.Hour // so that no connection times out
	j.start(1)
	slow := j.dialFrom("127.0.77.1")
	closed := make(chan struct{}, silent)
	for range silent {
		conn := j.dialFrom("127.0.88.1")
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			closed <- struct{}{}
		}()
	}
	for range silent - maxUnknown + 1 { // the slow connection also counts towards the limit
		<-closed
	}
	client, _, _, err := ssh.NewClientConn(slow, worker1, &ssh.ClientConfig{
		Auth: []ssh.AuthMethod{ssh.PublicKeys(j.signer)}, HostKeyCallback: ssh.FixedHostKey(j.signer.PublicKey()),
	})
	if err != nil {
		t.Fatalf("an earlier connection from another address is not served: %v", err)
	}
	_ = client.Close()
	if output, err := j.ssh(worker1, "true").CombinedOutput(); err != nil {
		t.Errorf("a later connection is not served: %v: %s", err, output)
	}
}
