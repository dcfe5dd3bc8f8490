# An application that does what its path says. Every request and every answer is checked by Rack's own Lint.
require "rack/lint"

here = File.dirname(File.expand_path(__FILE__))
count = 0
text = { "Content-Type" => "text/plain" }
puts "loaded"

wait_for = ->(name) { sleep 0.005 until File.exist?("#{here}/#{name}") }

work = {
  "/count" => ->(_) { [200, text, ["#{$$} #{count += 1}"]] },
  "/env" => lambda { |env|
    body = env["rack.input"].read
    env["rack.input"].rewind
    again = env["rack.input"].read(10)
    names = %w[REQUEST_METHOD SCRIPT_NAME PATH_INFO QUERY_STRING CONTENT_TYPE CONTENT_LENGTH SERVER_PROTOCOL rack.url_scheme HTTP_X_A]
    [200, text, [*names.map { |name| "#{name}=#{env[name]}\n" }, "#{body.bytesize} #{again} #{ENV["RAILS_ENV"]} #{Dir.pwd == here}"]]
  },
  "/lines" => ->(env) { [200, text, [env["rack.input"].gets, env["rack.input"].each { |line| break line }.to_s]] },
  "/cookies" => ->(_) { [200, text.merge("Set-Cookie" => "a=1\nb=2"), []] },
  "/created" => ->(_) { [201, text.merge("Location" => "/x"), ["made"]] },
  "/none" => ->(_) { [204, {}, []] },
  "/errors" => ->(env) { env["rack.errors"].puts("a note of the application"); [200, text, ["noted"]] },
  "/fails" => ->(_) { raise "before the head" },
}

# What Lint takes for wrong, or would wrap.
class Pieces
  def initialize(&block) = @block = block
  def each(&each) = @block.call(each)
  def close = puts("closed")
end

plain = {
  "/stream" => ->(_) { [200, text, Pieces.new { |send| send.("first"); wait_for.("go"); send.("second") }] },
  "/late" => ->(_) { [200, text, Pieces.new { |send| send.("first"); raise "after the head" }] },
  "/called" => ->(_) { [200, text, ->(stream) { stream << "called"; stream.close }] },
  "/lists" => ->(_) { [200, { "content-type" => "text/plain", "set-cookie" => %w[a=1 b=2] }, ["lists"]] },
  "/finished" => lambda { |env|
    env["rack.response_finished"] << ->(_, status, *) { File.write("#{here}/finished", status.to_s) }
    [200, text, ["done"]]
  },
  "/broken" => ->(_) { [200, text.merge("X-A" => "a\rb"), []] },
  "/exits" => ->(_) { exit!(3) },
}

file = lambda do |env|
  require "rack/files"
  Rack::Files.new(here).call(env.merge("PATH_INFO" => "/big"))
end

missing = ->(_) { [404, text, ["no such work"]] }
linted = Rack::Lint.new(->(env) { work.fetch(env["PATH_INFO"], missing).call(env) })

run lambda { |env|
  next file.call(env) if env["PATH_INFO"] == "/file"
  plain.key?(env["PATH_INFO"]) ? plain[env["PATH_INFO"]].call(env) : linted.call(env)
}
