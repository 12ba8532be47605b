package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// nodePrograms maps each program that a real node needs to its Debian package.
var nodePrograms = map[string]string{
	"containerd":              "containerd",
	"containerd-shim-runc-v2": "containerd",
	"ctr":                     "containerd",
	"ip":                      "iproute2",
	"mount":                   "mount",
	"nft":                     "nftables",
	"runc":                    "runc",
}

// cniFolders are the folders in which distributions install the CNI plugins.
var cniFolders = []string{"/usr/lib/cni", "/opt/cni/bin"}

// cniFolder returns the folder that has the CNI plugins of the node, or "" if there is none.
func cniFolder() string {
	for _, dir := range cniFolders {
		if exists(filepath.Join(dir, "bridge")) && exists(filepath.Join(dir, "host-local")) &&
			exists(filepath.Join(dir, "loopback")) {
			return dir
		}
	}
	return ""
}

// missingPackages returns the packages that must be installed before a real node can run.
func missingPackages() []string {
	missing := packagesOfMissing(nodePrograms)
	if cniFolder() == "" {
		missing = append(missing, "containernetworking-plugins")
	}
	slices.Sort(missing)
	return missing
}

// packagesOfMissing returns the packages of the programs that are not installed.
func packagesOfMissing(programs map[string]string) []string {
	var missing []string
	for program, pkg := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, pkg)
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// noRealNode returns the reason why this process cannot run a real node, or "" if it can.
func noRealNode() string {
	if os.Geteuid() != 0 {
		return "not root"
	}
	// Root in a container often lacks capabilities.
	for bit, name := range map[uint]string{12: "CAP_NET_ADMIN", 21: "CAP_SYS_ADMIN"} {
		if !hasCapability(bit) {
			return "root without " + name
		}
	}
	missing := missingPackages()
	if _, err := exec.LookPath("apt-get"); err != nil && len(missing) > 0 {
		return "apt-get is missing, which would install " + strings.Join(missing, ", ")
	}
	return ""
}

func hasCapability(bit uint) bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(status), "CapEff:")
	line, _, _ := strings.Cut(rest, "\n")
	set, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return err == nil && set&(1<<bit) != 0
}

// installPackages installs Debian packages with the apt configuration of this machine.
func (c *Cluster) installPackages(ctx context.Context, packages ...string) error {
	if len(packages) == 0 {
		return nil
	}
	// Only one apt-get can update the package lists at a time. A second one would fail instead of waiting.
	unlock, err := lockFile(c.Paths.cache("apt-get.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	return c.Progress.Step("install Debian packages "+strings.Join(packages, " "), func() error {
		install := append([]string{"install", "-y", "--no-install-recommends"}, packages...)
		if aptGet(ctx, install...) == nil {
			return nil
		}
		// On a new machine, package lists are missing or out of date.
		if err := aptGet(ctx, "update"); err != nil {
			return err
		}
		return aptGet(ctx, install...)
	})
}

// Browser installs a headless browser unless there is one, and returns its path.
func (c *Cluster) Browser(ctx context.Context) (string, error) {
	const program = "chromium-headless-shell" // the package has the same name
	if err := c.installPackages(ctx, packagesOfMissing(map[string]string{program: program})...); err != nil {
		return "", err
	}
	return exec.LookPath(program)
}

func aptGet(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=120"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, lastLines(out, 10))
	}
	return nil
}

// run runs a command and returns its standard output. An error includes the standard error.
func run(ctx context.Context, name string, args ...string) (string, error) {
	return runInput(ctx, "", name, args...)
}

func runInput(ctx context.Context, stdin, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	if err == nil {
		return string(out), nil
	}
	var stderr string
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		stderr = lastLines(exit.Stderr, 15)
	}
	return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr)
}
