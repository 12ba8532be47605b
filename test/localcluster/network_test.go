package localcluster

import (
	"context"
	"net"
	"os"
	"testing"
)

// If the hardware address of the bridge changed, pods with the old address in their ARP caches could not reach the
// node for a while.
func TestBridgeKeepsItsHardwareAddress(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can add network interfaces")
	}
	const name, port, peer = "tsjobs-test0", "tsjobs-test1", "tsjobs-test2"
	if _, err := run(t.Context(), "ip", "link", "add", port, "address", "02:00:00:00:00:01", "type", "veth", "peer",
		"name", peer); err != nil {
		t.Skip("network interfaces cannot be added here:", err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, link := range []string{port, name} {
			if _, err := run(ctx, "ip", "link", "delete", link); err != nil {
				t.Error(err)
			}
		}
	})
	if err := ensureBridge(t.Context(), name, bridgeMAC); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context(), "ip", "link", "set", port, "master", name); err != nil {
		t.Fatal(err)
	}
	bridge, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	if got := bridge.HardwareAddr.String(); got != bridgeMAC {
		t.Errorf("after a port with a lower address was added, the bridge has %s, want %s", got, bridgeMAC)
	}
}
