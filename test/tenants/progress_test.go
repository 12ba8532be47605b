package tenants

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/framework"
	"tensorstack.dev/jobs/common/progress"
)

// The sidecars are servers of the test. Their addresses belong to the loopback interface.
var _ = Describe("The progress of a job", Label("progress", "pytorch"), func() {
	const imitated, honest = "127.4.0.1", "127.4.0.2"
	half := progress.State{Reports: 1, Step: new(int64(1)), TotalSteps: new(int64(2)), Percent: new(int32(50))}

	DescribeTable("is shown although a thousand pods of another tenant imitate sidecars", func(
		ctx context.Context, answer func(net.Conn),
	) {
		c := runController(ctx, pytorch)
		asked := serve(ctx, progressAt(imitated), answer)
		// With the rendezvous backend etcd-v2, any replica might get rank 0, so each replica has a sidecar.
		job := reporting(pytorch.job("imitating", 1000, plain()))
		Expect(unstructured.SetNestedField(job.Object, map[string]any{
			"enabled": true, "rdzvBackend": "etcd-v2", "extraOptions": []any{"--rdzv_endpoint=etcd:2379"},
		}, "spec", "torchrunConfig")).To(Succeed())
		Expect(create(ctx, c.attacker, attacker, job)).To(Succeed())
		Eventually(ctx, func() (int, error) { return c.count(ctx, attacker, pytorch) }).
			WithTimeout(5 * bound).Should(Equal(1000))
		pods, err := c.podsOf(ctx, pytorch, attacker, "imitating")
		Expect(err).NotTo(HaveOccurred())
		c.inParallel(len(pods), func(i int) error { return c.moveTo(ctx, &pods[i], imitated) })
		Eventually(ctx, asked.Load).WithTimeout(5 * bound).Should(BeNumerically(">=", 200))

		token := c.leaderAt(ctx, honest)
		serveProgress(ctx, honest, progress.Handler(token, func() progress.State { return half }))
		Eventually(ctx, c.summary(ctx)).Should(Equal("50% (1/2)"))
		c.expectUnharmed()
	},
		Entry("without an answer", silence),
		Entry("with an endless header", hugeHeader),
		Entry("with an endless body", hugeBody),
	)

	It("is not believed if the address of its pod belongs to another tenant", func(ctx context.Context) {
		c := runController(ctx, pytorch)
		token := c.leaderAt(ctx, honest)
		var requests, leaks atomic.Int32
		serveProgress(ctx, honest, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(fmt.Sprint(r.URL, r.Header), token) {
				leaks.Add(1)
			}
			body, _ := json.Marshal(half)
			for name := range r.Header { // the signature of a request must not be valid in the answer
				w.Header().Set("X-Progress-Signature", strings.TrimPrefix(r.Header.Get(name), "HMAC "))
			}
			_, _ = w.Write(body)
			requests.Add(1)
		}))
		Eventually(ctx, requests.Load).WithTimeout(5 * bound).Should(BeNumerically(">=", 2))
		Expect(leaks.Load()).To(BeZero(), "the controller sent the token")
		Consistently(ctx, c.summary(ctx)).WithTimeout(5 * time.Second).Should(BeEmpty())
		c.expectUnharmed()
	})
})

// reporting returns the job with progress enabled.
func reporting(job *unstructured.Unstructured) *unstructured.Unstructured {
	GinkgoHelper()
	Expect(unstructured.SetNestedField(job.Object, true, "spec", "progress", "enabled")).To(Succeed())
	return job
}

// leaderAt starts the victim's job "job", which reports progress, and marks its pods as running with the given
// address. It returns the token for the leader's progress.
func (c *cluster) leaderAt(ctx context.Context, address string) string {
	GinkgoHelper()
	Expect(create(ctx, c.victim, victim, reporting(pytorch.job("job", 2, plain())))).To(Succeed())
	c.jobHasPods(ctx, pytorch, "job")
	pods, err := c.podsOf(ctx, pytorch, victim, "job")
	Expect(err).NotTo(HaveOccurred())
	token := ""
	for i := range pods {
		if leads := pods[i].Annotations[batchv1beta1.AnnotationProgressToken]; leads != "" {
			token = leads
		}
		Expect(c.moveTo(ctx, &pods[i], address)).To(Succeed())
	}
	Expect(token).NotTo(BeEmpty())
	return token
}

// moveTo marks a pod as running with the given address.
func (c *cluster) moveTo(ctx context.Context, pod *corev1.Pod, address string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		return c.answerAt(ctx, pod, address)
	})
}

// summary returns a function that returns the progress of the victim's job "job".
func (c *cluster) summary(ctx context.Context) func() (string, error) {
	return func() (string, error) {
		job := pytorch.new("job", nil)
		err := c.victim.Get(ctx, client.ObjectKey{Namespace: victim, Name: "job"}, job)
		summary, _, _ := unstructured.NestedString(job.Object, "status", "progress", "summary")
		return summary, c.unless(err)
	}
}

// progressAt returns an IP address with the port for progress.
func progressAt(address string) string {
	return net.JoinHostPort(address, strconv.Itoa(framework.ProgressPort))
}

// serveProgress serves HTTP at the port for progress of an address, until the spec ends.
func serveProgress(ctx context.Context, address string, handler http.Handler) {
	GinkgoHelper()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", progressAt(address))
	Expect(err).NotTo(HaveOccurred())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: bound}
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Close)
}
