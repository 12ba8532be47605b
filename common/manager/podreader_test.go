package manager

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// strip strips a pod as the cache of a controller of test jobs does.
func strip(pod *corev1.Pod) { stripPod(pod, testKind) }

// readerOf returns a podReader that reads from a handler.
func readerOf(t *testing.T, handler http.HandlerFunc) podReader {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	pods, err := apiutil.RESTClientForGVK(corev1.SchemeGroupVersion.WithKind("Pod"), true, false,
		&rest.Config{Host: server.URL}, clientgoscheme.Codecs, server.Client())
	if err != nil {
		t.Fatal(err)
	}
	return podReader{pods: pods, strip: strip}
}

func TestPodReaderKeepsTheFieldsThatTheJobControllerReads(t *testing.T) {
	t.Parallel()
	member, foreign := *bulkyPod(meta()), *bulkyPod(foreignMeta())
	member.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("group")}
	listed := corev1.PodList{
		TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"},
		ListMeta: metav1.ListMeta{ResourceVersion: "8"},
		Items:    []corev1.Pod{member, foreign},
	}
	var asked string
	reader := readerOf(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(listed)
	})
	var got corev1.PodList
	if err := reader.List(t.Context(), &got, client.InNamespace("ns"), client.MatchingLabels{"a": "b"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("/api/v1/namespaces/ns/pods?labelSelector=a%3Db", asked); diff != "" {
		t.Errorf("unexpected request (-want +got):\n%s", diff)
	}
	want := []corev1.Pod{*bulkyPod(meta()), *bulkyPod(foreignMeta())}
	for i := range want {
		strip(&want[i]) // as the cache strips it
	}
	want[0].Spec.SchedulingGroup = member.Spec.SchedulingGroup
	if diff := cmp.Diff(want, got.Items); diff != "" {
		t.Errorf("unexpected pods (-want +got):\n%s", diff)
	}
}

func TestPodReaderReturnsTheErrorOfTheAPIServer(t *testing.T) {
	t.Parallel()
	reader := readerOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Message: "no", Code: http.StatusForbidden,
		})
	})
	err := reader.List(t.Context(), &corev1.PodList{}, client.InNamespace("ns"))
	if err == nil || err.Error() != "no" {
		t.Errorf("the error is %v, want %q", err, "no")
	}
}

// All pods of a job together can need more memory than the controller has, for example 500 pods of 400 KiB each.
func TestPodReaderDecodesOnePodAtATime(t *testing.T) {
	const pods, size, most = 500, 400 << 10, 40 << 20
	large := strings.Repeat(`{"name": "A", "value": "a"}, `, size/29)
	peak := uint64(0)
	reader := readerOf(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"kind": "PodList", "items": [`)
		for i := range pods {
			fmt.Fprintf(w, `{"metadata": {"name": "pod-%d"}, "spec": {"containers": [{"env": [%s {}]}]}}`, i, large)
			if i < pods-1 {
				_, _ = io.WriteString(w, ",")
			}
			if i%50 == 0 {
				runtime.GC()
				var stats runtime.MemStats
				runtime.ReadMemStats(&stats)
				peak = max(peak, stats.HeapAlloc)
			}
		}
		_, _ = io.WriteString(w, `]}`)
	})
	var got corev1.PodList
	if err := reader.List(t.Context(), &got, client.InNamespace("ns")); err != nil {
		t.Fatal(err)
	}
	if len(got.Items) != pods || peak > most {
		t.Errorf("%d of %d pods were read; the peak of the heap is %d bytes, want at most %d",
			len(got.Items), pods, peak, most)
	}
}

func TestDecodePods(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body string
		want []string
		// wantErr is part of the expected error; empty means none.
		wantErr string
	}{
		"a list with empty items has no pods": {body: `{"kind": "PodList", "items": []}`},
		"a list with null items has no pods":  {body: `{"items": null, "metadata": {"resourceVersion": "1"}}`},
		"other fields of the list are skipped": {
			body: `{"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}], "more": [{"items": [{}]}]}`,
			want: []string{"a", "b"},
		},
		"items that are truncated are an error": {body: `{"items": [{"metadata": {"name": "a"}}`, wantErr: "EOF"},
		"a pod that is truncated is an error":   {body: `{"items": [{"metadata": {"name": "a"}`, wantErr: "EOF"},
		"a truncated list is an error":          {body: `{"items": [{"metadata": {"name": "a"}}]`, wantErr: "EOF"},
		"a list with a wrong end is an error":   {body: `{"items": [{"metadata": {"name": "a"}}]]`, wantErr: "invalid character ']'"},
		"an empty body is an error":             {wantErr: "EOF"},
		"a body that is no object is an error":  {body: `[]`, wantErr: "got [, want {"},
		"items that are no list are an error":   {body: `{"items": {}}`, wantErr: "the items must be a list, but begin with {"},
		"a field of another type is an error":   {body: `{"items": [{"metadata": 1}]}`, wantErr: "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods, err := decodePods(strings.NewReader(tc.body), strip)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("the error is %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, pod := range pods {
				got = append(got, pod.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected pods (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodReaderReadsTheLastLinesOfAContainer(t *testing.T) {
	t.Parallel()
	var asked string
	reader := readerOf(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		_, _ = w.Write([]byte("no labels\xff\n"))
	})
	got, err := reader.Output(t.Context(), "ns", "job-worker-0", "main")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("no labels\n", got); diff != "" {
		t.Errorf("unexpected output (-want +got):\n%s", diff)
	}
	want := "/api/v1/namespaces/ns/pods/job-worker-0/log?container=main&limitBytes=262144&tailLines=1000"
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("unexpected request (-want +got):\n%s", diff)
	}
	reader = readerOf(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	if _, err := reader.Output(t.Context(), "ns", "job-worker-0", "main"); !apierrors.IsForbidden(err) {
		t.Errorf("the error is %v, want Forbidden", err)
	}
}
