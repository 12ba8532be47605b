package manager

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	uberzap "go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const confidential = "password=hunter2"

// chattyLogger writes messages of all levels, including the most verbose ones of client-go.
func chattyLogger(w io.Writer) zap.Opts {
	return func(o *zap.Options) {
		level := uberzap.NewAtomicLevelAt(-10)
		o.Level, o.DestWriter = &level, w
	}
}

func TestLogDoesNotContainNotesOfEvents(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		w.WriteHeader(http.StatusCreated)
		if _, err := io.Copy(w, r.Body); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	lines := make(lineWriter, 100)
	mgr, err := ctrl.NewManager(&rest.Config{Host: server.URL}, ctrl.Options{
		Logger:  withoutQuotes(zap.New(chattyLogger(lines))),
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "digits-worker-0"}}
	mgr.GetEventRecorder("tensorstack-jobs").Eventf(pod, nil, corev1.EventTypeWarning, "ReplicaFailed", "Reconcile",
		"the replica printed %q", confidential)
	for {
		select {
		case line := <-lines:
			if strings.Contains(line, confidential) {
				t.Errorf("the log contains the note of an event: %s", line)
			}
			if strings.Contains(line, `"msg":"Event occurred"`) && strings.Contains(line, `"reason":"ReplicaFailed"`) {
				return
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the log does not contain the event")
		}
	}
}

// lineWriter sends each written line to the channel.
type lineWriter chan string

func (w lineWriter) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}

func TestLogDoesNotContainResponsesOfTheAPIServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"key"},"stringData":{"key":%q}}`, confidential)
	}))
	t.Cleanup(server.Close)
	clientset, err := kubernetes.NewForConfig(&rest.Config{
		Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	ctx := ctrl.LoggerInto(t.Context(),
		withoutQuotes(zap.New(chattyLogger(&out))).WithValues("controller", "test").WithName("test"))
	if _, err := clientset.CoreV1().Secrets("default").Get(ctx, "key", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"msg":"Response Body"`) {
		t.Errorf("client-go no longer logs response bodies, so that this test has no effect: %s", &out)
	}
	if strings.Contains(out.String(), confidential) {
		t.Errorf("the log contains a response of the API server: %s", &out)
	}
}
