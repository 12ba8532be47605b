package controlplane

import (
	"net"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func TestAnAPIServerStartsThoughAnotherProcessUsesItsPort(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs an API server, and -short is set")
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("run the tests with `make test`, which builds the API server that they need")
	}
	log.SetLogger(logr.Discard())
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	host, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}

	tries := 0
	environment, err := StartAPIServer(func() *envtest.Environment {
		environment := &envtest.Environment{}
		if tries++; tries == 1 {
			apiServer := environment.ControlPlane.GetAPIServer()
			apiServer.Address, apiServer.Port = host, port
		}
		return environment
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	if tries != 2 {
		t.Errorf("the API server needed %d tries, want 2: one with the port that is in use, and one with another", tries)
	}
}
