package command

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func TestManyRequestsAreNotDelayed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion": "v1", "kind": "Pod"}`))
	}))
	defer server.Close()
	flags := genericclioptions.NewConfigFlags(true)
	flags.APIServer = &server.URL
	e := &environment{IOStreams: genericiooptions.IOStreams{ErrOut: &bytes.Buffer{}}, flags: flags}
	c, err := e.connect()
	if err != nil {
		t.Fatal(err)
	}
	const replicas = 100
	begin := time.Now()
	for range replicas {
		if _, err := c.core.Pods("vision").Get(t.Context(), "digits-worker-0", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("%d requests took %s", replicas, took)
	}
}
