package framework

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestHostPortsAreWithinTheirRange(t *testing.T) {
	t.Parallel()
	low, high := int32(LastHostPort), int32(FirstHostPort)
	for attempt := range int32(hostPortBlocks) { // all blocks
		peers := Peers{UID: "b7e7e6a0-5d3c-4b0e-9a52-3f6a2f1c9d10", Attempt: attempt}
		low, high = min(low, peers.HostPort(0)), max(high, peers.HostPort(MaxHostPorts-1))
	}
	if low != FirstHostPort || high != LastHostPort {
		t.Errorf("the ports range from %d to %d, want %d to %d", low, high, FirstHostPort, LastHostPort)
	}
}

func TestHostPortsOfAJobAreDifferent(t *testing.T) {
	t.Parallel()
	for _, attempt := range []int32{0, 1, 2, 3, 4, 100, 1<<31 - 1} {
		peers := Peers{UID: "job-uid", Attempt: attempt}
		used := map[int32]string{}
		for n := range int32(MaxHostPorts) {
			port := peers.HostPort(n)
			if other, isUsed := used[port]; isUsed {
				t.Fatalf("attempt %d: ports number %s and %d are both %d", attempt, other, n, port)
			}
			used[port] = fmt.Sprint(n)
		}
	}
}

func TestSuccessiveAttemptsHaveNoHostPortOfTheFrameworkInCommon(t *testing.T) {
	t.Parallel()
	for attempt := range int32(hostPortBlocks) {
		before, after := Peers{UID: "job-uid", Attempt: attempt}, Peers{UID: "job-uid", Attempt: attempt + 1}
		distance := before.HostPort(0) - after.HostPort(0)
		if max(distance, -distance) < MaxHostPorts-1 {
			t.Fatalf("the ports of attempts %d and %d begin at %d and %d and overlap", attempt, attempt+1,
				before.HostPort(0), after.HostPort(0))
		}
	}
}

// A controller of another version must choose the same ports, because both versions can create pods of one attempt.
func TestHostPortDependsOnlyOnUIDAndAttempt(t *testing.T) {
	t.Parallel()
	peers := func(role Role) Peers { return NewPeers("ns", "job", "job-uid", "cluster.local", 0, []Role{role}) }
	for name, tc := range map[string]struct {
		peers Peers
		n     int32
		want  int32
	}{
		"the first port of a job":                                {Peers{UID: "job-uid"}, 0, 21413},
		"the last port of a job":                                 {Peers{UID: "job-uid"}, 2000, 23413},
		"a number beyond the largest job repeats the first port": {Peers{UID: "job-uid"}, 2002, 21413},
		"the next attempt of the job has another port":           {Peers{UID: "job-uid", Attempt: 1}, 0, 23414},
		"another job has another port":                           {Peers{UID: "other-uid"}, 0, 23930},
		"the name and the members of a job do not matter":        {peers(Role{Replicas: 3}), 0, 21413},
		"the indices of a scaled job do not matter":              {peers(Role{Indices: []int32{0, 4}}), 5, 21418},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.peers.HostPort(tc.n); got != tc.want {
				t.Errorf("the port is %d, want %d", got, tc.want)
			}
		})
	}
}

func TestHostPortsOfJobsAreSpread(t *testing.T) {
	t.Parallel()
	const jobs = 1000
	used := map[int32]int{}
	for i := range jobs {
		used[Peers{UID: types.UID(fmt.Sprintf("b7e7e6a0-5d3c-4b0e-9a52-%012x", i))}.HostPort(0)]++
	}
	// If the jobs choose their blocks at random, they are expected to use 885 of the 4,003 blocks.
	if len(used) < 850 {
		t.Errorf("the ports of %d jobs begin at %d different ports, want about 885", jobs, len(used))
	}
}

func TestDeclareHostPort(t *testing.T) {
	t.Parallel()
	port := func(number, hostPort int32, protocol corev1.Protocol) corev1.ContainerPort {
		return corev1.ContainerPort{ContainerPort: number, HostPort: hostPort, Protocol: protocol}
	}
	ours := port(20100, 20100, corev1.ProtocolTCP)
	for name, tc := range map[string]struct{ main, sidecar, want []corev1.ContainerPort }{
		"the port is added to a container without ports": {want: []corev1.ContainerPort{ours}},
		"other ports of the container stay": {
			main: []corev1.ContainerPort{port(80, 0, "")},
			want: []corev1.ContainerPort{port(80, 0, ""), ours},
		},
		"a port that the container already declares is not added": {
			main: []corev1.ContainerPort{port(20100, 0, "")},
			want: []corev1.ContainerPort{port(20100, 0, "")},
		},
		"a port that a sidecar already declares is not added": {
			sidecar: []corev1.ContainerPort{port(20100, 20100, corev1.ProtocolTCP)},
		},
		"a UDP port of the same number does not count": {
			main: []corev1.ContainerPort{port(20100, 0, corev1.ProtocolUDP)},
			want: []corev1.ContainerPort{port(20100, 0, corev1.ProtocolUDP), ours},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared := append(make([]corev1.ContainerPort, 0, 8), tc.main...)
			if tc.main == nil {
				shared = nil
			}
			spec := corev1.PodSpec{Containers: []corev1.Container{
				{Name: "sidecar", Ports: tc.sidecar}, {Name: "main", Ports: shared},
			}}
			DeclareHostPort(&spec, &spec.Containers[1], 20100)
			if diff := cmp.Diff(tc.want, spec.Containers[1].Ports); diff != "" {
				t.Errorf("unexpected ports (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.sidecar, spec.Containers[0].Ports); diff != "" {
				t.Errorf("unexpected ports of the sidecar (-want +got):\n%s", diff)
			}
			if len(shared) < cap(shared) && shared[:len(shared)+1][len(shared)].ContainerPort != 0 {
				t.Error("the shared array of the template's ports was changed")
			}
		})
	}
}

func TestPortOf(t *testing.T) {
	t.Parallel()
	elsewhere := corev1.EnvVar{Name: "MASTER_PORT", ValueFrom: &corev1.EnvVarSource{}}
	value := func(v string) corev1.EnvVar { return corev1.EnvVar{Name: "MASTER_PORT", Value: v} }
	for name, tc := range map[string]struct {
		env  []corev1.EnvVar
		want int32
	}{
		"a number is the port":                       {[]corev1.EnvVar{value("4242")}, 4242},
		"the last variable of the name wins":         {[]corev1.EnvVar{value("4242"), value("4343")}, 4343},
		"a missing variable is not a port":           {[]corev1.EnvVar{{Name: "PORT", Value: "4242"}}, 0},
		"a reference to another variable is unknown": {[]corev1.EnvVar{value("$(PORT)")}, 0},
		"a variable with valueFrom is unknown":       {[]corev1.EnvVar{value("4242"), elsewhere}, 0},
		"a number above 65535 is not a port":         {[]corev1.EnvVar{value("65536")}, 0},
		"a negative number is not a port":            {[]corev1.EnvVar{value("-1")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := PortOf(&corev1.Container{Env: tc.env}, "MASTER_PORT"); got != tc.want {
				t.Errorf("the port is %d, want %d", got, tc.want)
			}
		})
	}
}
