package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("A TensorBoard", Label("tensorboard"), func() {
	It("shows the logs of a finished job in a browser, and is deleted with the job", Label("always"),
		func(ctx context.Context) {
			n := newNamespace(ctx)
			n.volume(ctx, "digits-logs")
			n.kubectl(ctx, "apply", "-k", "examples/pytorch/code")
			n.kubectl(ctx, "apply", "-f", "examples/pytorch/tensorboard.yaml")
			n.kubectl(ctx, "wait", "--for=condition=Completed", "ptjob/digits-board", timeout)
			n.kubectl(ctx, "wait", "--for=condition=Ready", "tb/digits-board", timeout)
			Eventually(ctx, n.output(ctx, "get", "ptjob", "digits-board", "-o",
				"jsonpath={.status.tensorboard.ready} {.status.tensorboard.type} {.status.tensorboard.dependent.name}")).
				Should(Equal("true Normal digits-board"))
			Eventually(ctx, n.output(ctx, "get", "tb")).
				Should(MatchRegexp(`digits-board +Running +http://digits-board-tb\.%s\.svc\.\S+/ +False`, n))

			address := n.forward(ctx, "service/digits-board-tb", "80")
			text := screenshot(ctx, "http://"+address+"/", scalarCharts, "tensorboard.png")
			Expect(text).To(And(
				ContainSubstring("digits-logs-runs/first"), ContainSubstring("loss"), ContainSubstring("accuracy")))

			n.kubectl(ctx, "delete", "ptjob", "digits-board")
			Eventually(ctx, n.names(ctx, "tb,pods,services")).ShouldNot(ContainElement(ContainSubstring("digits-board")))
		})

	It("shows the logs of a TensorFlowTrainingJob", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.volume(ctx, "digits-logs")
		n.kubectl(ctx, "apply", "-k", "examples/tensorflow/code")
		n.kubectl(ctx, "apply", "-f", "examples/tensorflow/tensorboard.yaml")
		n.kubectl(ctx, "wait", "--for=condition=Completed", "tfjob/digits-multi-worker-board", timeout)
		n.kubectl(ctx, "wait", "--for=condition=Ready", "tb/digits-multi-worker-board", timeout)
		n.kubectl(ctx, "wait", "--for=jsonpath={.status.tensorboard.ready}=true", "tfjob/digits-multi-worker-board", timeout)
		address := n.forward(ctx, "service/digits-multi-worker-board-tb", "80")
		last := func() (int, error) { return lastStep(ctx, address, "digits-logs-runs/first", "accuracy") }
		Eventually(ctx, last).Should(Equal(10))
	})

	It("shows logs from claims, S3 and web servers together, without exposing credentials", func(ctx context.Context) {
		n := newNamespace(ctx)
		n.kubectl(ctx, "apply", "-f", "test/e2e/testdata/storage.yaml")
		n.kubectl(ctx, "wait", "--for=condition=Ready", "pod/storage", "pod/files", timeout)
		n.kubectl(ctx, "apply", "-f", "examples/tensorboard/s3.yaml")
		n.kubectl(ctx, "wait", "--for=condition=Ready", "tb/remote", timeout)
		n.kubectl(ctx, "wait", "--for=condition=SourcesAvailable=false", "tb/remote", timeout)
		Eventually(ctx, n.output(ctx, "describe", "tb", "remote")).
			Should(ContainSubstring("s3://trainings/digits"), "it reports the bucket that does not exist yet")

		address := n.forward(ctx, "service/remote-tb", "80")
		runs := func() ([]string, error) { return runsOf(ctx, address) }
		Eventually(ctx, runs).Should(ConsistOf("files:8000-events.out.tfevents.1"))
		By("uploading the first half of a log, and the rest later")
		events := download(ctx, "http://"+n.forward(ctx, "service/files", "8000")+"/events.out.tfevents.1")
		bucket := newBucket(ctx, n.forward(ctx, "service/storage", "7070"), "trainings")
		bucket.upload(ctx, "digits/first/events.out.tfevents.1", events[:len(events)/2])
		bucket.upload(ctx, "digits/first/checkpoint.pt", []byte("large"))
		Eventually(ctx, runs).Should(ConsistOf("files:8000-events.out.tfevents.1", "trainings-digits/first"))
		n.kubectl(ctx, "wait", "--for=condition=SourcesAvailable", "tb/remote", timeout)
		bucket.upload(ctx, "digits/first/events.out.tfevents.1", events)
		n.volume(ctx, "digits-logs")
		n.kubectlWith(ctx, claim, "apply", "-f", "-")
		n.kubectlWith(ctx, filesets, "apply", "-f", "-")
		last := func() (int, error) { return lastStep(ctx, address, "trainings-digits/first", "loss") }
		Eventually(ctx, last).Should(Equal(999))
		Expect(n.kubectl(ctx, "exec", "remote-tb", "-c", "tensorboard", "--", "ls", "/logs/trainings-digits/first")).
			To(Equal("events.out.tfevents.1"))

		By("showing filesets of a claim and of the same bucket")
		n.kubectl(ctx, "wait", "--for=condition=Ready", "tb/filesets", timeout)
		Expect(n.kubectl(ctx, "exec", "filesets-tb", "-c", "tensorboard", "--", "ls", "/logs")).
			To(Equal("digits-logs-runs\ntrainings-digits"))
		other := n.forward(ctx, "service/filesets-tb", "80")
		Eventually(ctx, func() ([]string, error) { return runsOf(ctx, other) }).Should(ConsistOf("trainings-digits/first"))

		seen := n.kubectl(ctx, "exec", "remote-tb", "-c", "tensorboard", "--", "sh", "-c",
			"env; cat /logs/*/* /secrets/* 2>&1 || true")
		Expect(seen).NotTo(ContainSubstring("not-a-real-key"))
		for _, elsewhere := range []string{"tb,configmaps,pods", "events"} {
			Expect(now(n.output(ctx, "get", elsewhere, "-o", "yaml"))).NotTo(MatchRegexp(`: not-a-real-key`), elsewhere)
		}
		Expect(now(n.output(ctx, "logs", "remote-tb", "--all-containers"))).NotTo(ContainSubstring("not-a-real-key"))
	})

	It("is suspended when nobody uses it, and runs again when the user resumes it", Serial, func(ctx context.Context) {
		controller := namespace("t9k-tensorboard")
		deployment := "deployment/tensorboard-controller"
		controller.kubectl(ctx, "patch", deployment, "--type=json", "-p",
			`[{"op": "add", "path": "/spec/template/spec/containers/0/args", "value": ["--idle-after=8s",
				"--suspend-after-idle=8s", "--probe-interval=1s",
				"--url-template=https://boards.example.com/{{.Namespace}}/{{.Name}}"]}]`)
		DeferCleanup(func(ctx context.Context) {
			controller.kubectl(ctx, "rollout", "undo", deployment)
			controller.kubectl(ctx, "rollout", "status", deployment, timeout)
		})
		controller.kubectl(ctx, "rollout", "status", deployment, timeout)

		n := newNamespace(ctx)
		n.volume(ctx, "digits-logs")
		n.kubectlWith(ctx, claim, "apply", "-f", "-")
		n.kubectl(ctx, "apply", "-f", "examples/tensorboard/claim.yaml")
		n.kubectl(ctx, "wait", "--for=condition=Ready", "tb/digits-logs", timeout)
		address := n.forward(ctx, "service/digits-logs-tb", "80")
		By("opening the path of its URL, as a gateway would")
		Eventually(ctx, n.output(ctx, "get", "tb", "digits-logs", "-o", "jsonpath={.status.url}")).
			Should(Equal("https://boards.example.com/" + string(n) + "/digits-logs/"))
		address += "/" + string(n) + "/digits-logs"
		state := n.output(ctx, "get", "tb", "digits-logs", "-o",
			`jsonpath={.status.phase} {.status.conditions[?(@.type=="Idle")].status} {.spec.suspend}`)
		By("sending requests for longer than it can be idle")
		request := func(g Gomega) {
			_, err := runsOf(ctx, address)
			g.Expect(err).NotTo(HaveOccurred())
			shown, err := state()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(shown).To(Equal("Running False"))
		}
		Eventually(ctx, request).Should(Succeed())
		Consistently(ctx, request, "20s", "1s").Should(Succeed())
		By("sending no more requests")
		Eventually(ctx, state).Should(Equal("Suspended True true"))
		Eventually(ctx, n.output(ctx, "get", "events", "--field-selector=reason=Culled", "-o",
			"jsonpath={.items[*].note}{.items[*].message}")).Should(ContainSubstring("set spec.suspend to false"))
		Eventually(ctx, n.names(ctx, "service")).Should(ContainElement("service/digits-logs-tb"))

		n.kubectl(ctx, "patch", "tb", "digits-logs", "--type=merge", "-p", `{"spec": {"suspend": false}}`)
		n.kubectl(ctx, "wait", "--for=condition=Ready", "tb/digits-logs", timeout)
	})

	It("is counted in the metrics of its controller, which are documented", func(ctx context.Context) {
		const n = "t9k-tensorboard"
		var metrics string
		read := func() (string, error) { // fails while the pod is being replaced
			pod, err := kubectl(ctx, "-n", n, "get", "pods", "-o", "jsonpath={.items[0].metadata.name}")
			if err != nil {
				return "", err
			}
			metrics, err = kubectl(ctx, "-n", n, "get", "--raw", "/api/v1/namespaces/"+n+"/pods/"+pod+":8080/proxy/metrics")
			return metrics, err
		}
		Eventually(ctx, read).Should(MatchRegexp(`(?m)^tensorstack_tensorboards\{phase="Running"\} \d`))
		areDocumented(metrics)
	})
})

// claim is the PersistentVolumeClaim whose logs examples/tensorboard/claim.yaml shows.
const claim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: digits-logs}
spec:
  accessModes: [ReadWriteMany]
  resources: {requests: {storage: 1Gi}}
`

// filesets is a TensorBoard that shows two sources: the claim digits-logs, and a bucket of the S3 server in
// testdata/storage.yaml. The Secret has the credentials for the bucket in the format of the program s3cmd.
const filesets = `
apiVersion: v1
kind: Secret
metadata: {name: s3cmd}
stringData:
  .s3cfg: |
    [default]
    access_key = reader
    secret_key = not-a-real-key
    host_base = storage:7070
    use_https = False
---
apiVersion: tensorstack.dev/v1beta1
kind: TensorBoard
metadata: {name: filesets}
spec:
  trainingLogFilesets: ["t9k://pvc/digits-logs/runs", "t9k://minio/s3cmd/trainings/digits"]
`

// runsOf returns the runs of a TensorBoard. The page of TensorBoard sends the same request.
func runsOf(ctx context.Context, address string) (runs []string, err error) {
	err = read(ctx, "http://"+address+"/data/runs", &runs)
	return runs, err
}

// lastStep returns the last step of a scalar of a TensorBoard, or 0 if it has none yet.
func lastStep(ctx context.Context, address, run, tag string) (int, error) {
	var points [][3]float64 // wall time, step, value
	query := url.Values{"run": {run}, "tag": {tag}}
	err := read(ctx, "http://"+address+"/data/plugin/scalars/scalars?"+query.Encode(), &points)
	if err != nil || len(points) == 0 {
		return 0, err
	}
	return int(points[len(points)-1][1]), nil
}

// read decodes the JSON document at an address.
func read(ctx context.Context, address string, document any) error {
	content, err := fetch(ctx, address)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, document)
}

// fetch returns the content at an address. It returns an error unless the status is 200.
func fetch(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", address, response.Status, content)
	}
	return content, err
}

// download returns the content at an address. The test fails if the request fails or its status is not 200.
func download(ctx context.Context, address string) []byte {
	GinkgoHelper()
	content, err := fetch(ctx, address)
	Expect(err).NotTo(HaveOccurred())
	return content
}

// bucket is a bucket of the S3 server in testdata/storage.yaml.
type bucket struct {
	*minio.Client
	name string
}

func newBucket(ctx context.Context, address, name string) bucket {
	GinkgoHelper()
	s3, err := minio.New(address, &minio.Options{Creds: credentials.NewStaticV4("reader", "not-a-real-key", "")})
	Expect(err).NotTo(HaveOccurred())
	Expect(s3.MakeBucket(ctx, name, minio.MakeBucketOptions{})).To(Succeed())
	return bucket{s3, name}
}

func (b bucket) upload(ctx context.Context, name string, content []byte) {
	GinkgoHelper()
	_, err := b.PutObject(ctx, b.name, name, bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{})
	Expect(err).NotTo(HaveOccurred())
}
