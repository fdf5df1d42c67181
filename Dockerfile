# syntax=docker/dockerfile:1
# qwatch's image: a static binary, a bill of materials, and nothing else.
#
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v1.2.3 -t qwatch:v1.2.3 .
#
# `make image` builds the same without a container engine (tools/image); a test holds the two together.
FROM --platform=$BUILDPLATFORM golang:1.26.8 AS build
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=dev
ARG REVISION=
WORKDIR /src
ENV CGO_ENABLED=0 GOFLAGS= GOWORK=off GOTOOLCHAIN=local
COPY go.mod go.sum ./
RUN go mod download
COPY tools/go.mod tools/go.sum tools/
RUN cd tools && go mod download
COPY . .
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH GOAMD64=v1 GOARM64=v8.0 go build -trimpath -buildvcs=false \
      -ldflags "-s -w -buildid= -X main.version=$VERSION${REVISION:+ -X main.commit=$REVISION}" -o /out/qwatch ./cmd/qwatch \
    && mkdir -p /out/usr/share/sbom \
    && (cd tools && go run ./image -version "$VERSION" -sbom /out/qwatch) >/out/usr/share/sbom/qwatch.cdx.json \
    && chmod 0555 /out/qwatch && chmod 0444 /out/usr/share/sbom/qwatch.cdx.json

FROM scratch
COPY --from=build /out/usr /usr
COPY --from=build /out/qwatch /qwatch
ARG VERSION=dev
ARG REVISION=
LABEL org.opencontainers.image.title="qwatch" \
      org.opencontainers.image.description="Watch, consume and look after Azure Storage queues" \
      org.opencontainers.image.source="https://github.com/qwatch/qwatch" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
ENV QWATCH_CONFIG=/etc/qwatch/qwatch.yaml
USER 65532:65532
EXPOSE 9780 9781 9782
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 CMD ["/qwatch", "healthcheck"]
ENTRYPOINT ["/qwatch"]
CMD ["run"]
