//! stub
pub fn start() {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_env("GATED_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
