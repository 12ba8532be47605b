package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
)

const (
	ipForwardFile = "/proc/sys/net/ipv4/ip_forward"
	nftTable      = "tsjobs"
	proxyTable    = "kube-proxy" // created by kube-proxy in the families ip and ip6
	ruleComment   = "tensorstack-jobs"
)

// ensureNetwork creates the bridge and allows pods to reach the outside. The CNI plugin would create the bridge only
// for the first pod. That is too late, because the control plane listens on the bridge.
func (p Paths) ensureNetwork(ctx context.Context, r *record) error {
	if err := subnetFree(); err != nil {
		return err
	}
	if err := ensureBridge(ctx, bridge, bridgeMAC); err != nil {
		return err
	}
	_, subnet, err := net.ParseCIDR(podCIDR)
	if err != nil {
		return err
	}
	ones, _ := subnet.Mask.Size()
	if _, err := run(ctx, "ip", "addr", "replace", fmt.Sprintf("%s/%d", nodeIP, ones), "dev", bridge); err != nil {
		return err
	}
	if _, err := run(ctx, "ip", "link", "set", bridge, "up"); err != nil {
		return err
	}
	if r.IPForward == "" {
		old, err := os.ReadFile(ipForwardFile)
		if err != nil {
			return err
		}
		r.IPForward = strings.TrimSpace(string(old))
		if err := p.save(r); err != nil {
			return err
		}
	}
	if err := os.WriteFile(ipForwardFile, []byte("1"), 0); err != nil {
		return err
	}
	table := fmt.Sprintf(`table ip %[1]s {}
delete table ip %[1]s
table ip %[1]s {
	chain postrouting {
		type nat hook postrouting priority srcnat;
		ip saddr %[2]s oifname != %[3]q masquerade
	}
}`, nftTable, podCIDR, bridge)
	if _, err := runInput(ctx, table, "nft", "-f", "-"); err != nil {
		return err
	}
	return allowForward(ctx)
}

// ensureBridge creates a bridge with the given hardware address. A bridge without a fixed address has the lowest
// address of its ports, which changes when pods are created and deleted. After each change, packets of running pods to
// the node, for example DNS queries, would be lost for seconds.
func ensureBridge(ctx context.Context, name, mac string) error {
	if _, err := net.InterfaceByName(name); err != nil {
		if _, err := run(ctx, "ip", "link", "add", name, "type", "bridge"); err != nil {
			return err
		}
	}
	_, err := run(ctx, "ip", "link", "set", name, "address", mac)
	return err
}

// subnetFree checks the addresses of the host's interfaces, except the bridge. It returns an error if they overlap
// with the addresses of pods or Services.
func subnetFree() error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, iface := range interfaces {
		if iface.Name == bridge {
			continue
		}
		addrs, err := iface.Addrs()
		if err != nil {
			continue // the interface was just removed
		}
		for _, addr := range addrs {
			have, ok := addr.(*net.IPNet)
			if !ok {
				continue
			}
			for _, cidr := range []string{podCIDR, serviceCIDR} {
				_, ours, err := net.ParseCIDR(cidr)
				if err != nil {
					return err
				}
				if ours.Contains(have.IP) || have.Contains(ours.IP) {
					return fmt.Errorf("interface %s has %s, which overlaps with %s of the cluster: remove it or use --simulated",
						iface.Name, addr, cidr)
				}
			}
		}
	}
	return nil
}

// forwardRules returns the iptables rules that accept the forwarded traffic of the bridge. They are necessary if the
// firewall of the host drops forwarded traffic, as with Docker.
func forwardRules() [][]string {
	return [][]string{
		{"FORWARD", "-i", bridge, "-m", "comment", "--comment", ruleComment, "-j", "ACCEPT"},
		{"FORWARD", "-o", bridge, "-m", "comment", "--comment", ruleComment, "-j", "ACCEPT"},
	}
}

func allowForward(ctx context.Context) error {
	policy, err := run(ctx, "iptables", "-w", "-S", "FORWARD")
	if err != nil || !strings.HasPrefix(policy, "-P FORWARD DROP") {
		return nil //nolint:nilerr // no iptables, or forwarded traffic is not dropped
	}
	for _, rule := range forwardRules() {
		if _, err := run(ctx, "iptables", append([]string{"-w", "-C"}, rule...)...); err == nil {
			continue
		}
		if _, err := run(ctx, "iptables", append([]string{"-w", "-I"}, rule...)...); err != nil {
			return err
		}
	}
	return nil
}

// removeNetwork reverts ensureNetwork, and removes the rules of kube-proxy.
func removeNetwork(ctx context.Context, r *record) error {
	var errs []error
	if _, err := net.InterfaceByName(bridge); err == nil {
		_, err := run(ctx, "ip", "link", "delete", bridge)
		errs = append(errs, err)
	}
	if _, err := exec.LookPath("nft"); err == nil {
		for _, table := range []string{"ip " + nftTable, "ip " + proxyTable, "ip6 " + proxyTable} {
			// The first line creates the table unless it exists, so that the delete cannot fail.
			_, err := runInput(ctx, fmt.Sprintf("table %[1]s {}\ndelete table %[1]s\n", table), "nft", "-f", "-")
			errs = append(errs, err)
		}
	}
	if _, err := exec.LookPath("iptables"); err == nil {
		for _, rule := range forwardRules() {
			for range 10 { // each -D removes only one of several equal rules
				if _, err := run(ctx, "iptables", append([]string{"-w", "-D"}, rule...)...); err != nil {
					break
				}
			}
		}
	}
	if r.IPForward == "0" {
		errs = append(errs, os.WriteFile(ipForwardFile, []byte("0"), 0))
	}
	return errors.Join(errs...)
}
